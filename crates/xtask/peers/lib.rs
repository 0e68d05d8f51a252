//! Nothing: the manifest names the source of nginx.
