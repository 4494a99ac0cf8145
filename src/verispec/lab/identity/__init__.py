"""What RAN: hashes, resolved options, environment and host, observed on the process and not taken from the plan."""
