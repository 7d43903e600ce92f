"""The controller's side of reaching servers: wishes, what may be answered, what went wrong, and what is kept of it."""
