//! Reverse proxy.
mod config;
pub use config::{ProxyConfig, UpstreamHttp};
