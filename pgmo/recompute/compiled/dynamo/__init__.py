"""Settings of Dynamo, and its reports: graph breaks, changing numbers, names, errors."""
