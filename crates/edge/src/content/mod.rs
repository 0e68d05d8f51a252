//! What is served: files below a root, or a reverse proxy.
