"""A simulated fleet: how often the judge accuses a healthy server, and how often it misses a faulty one."""
