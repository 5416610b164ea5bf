"""Settings of Dynamo, and what it reports: graph breaks, changing numbers, names, errors."""
