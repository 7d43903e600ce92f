"""Orders from a spreadsheet or an ssh_config: read once, written as hosts.yml for a person to check and commit."""
