"""What shows the findings: the HTML page, pictures, notebooks."""
