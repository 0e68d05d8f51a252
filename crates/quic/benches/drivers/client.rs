//! The client of all measurements: quinn's, on a core of its own.

use std::net::Ipv4Addr;
use std::sync::Arc;

use quinn_proto::ClientConfig;
use quinn_proto::crypto::rustls::QuicClientConfig;

use crate::server::{Running, pin};

/// Bytes of a request: about those of a browser whose fields are compressed.
const REQUEST_LEN: usize = 64;

/// The requests of a client.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    /// Requests under way at once on each connection.
    pub(crate) streams: usize,
    /// Requests of each of these streams, one after another.
    pub(crate) requests: usize,
    /// Bytes of each response.
    pub(crate) length: usize,
}

/// A client with open connections.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    connections: Vec<quinn::Connection>,
}

impl Client {
    pub(crate) fn connect(server: &Running, connections: usize) -> Self {
        pin(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(server.certificate.clone()).unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = QuicClientConfig::try_from(tls).unwrap();
        let connections = runtime.block_on(async {
            let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            endpoint.set_default_client_config(ClientConfig::new(Arc::new(tls)));
            let mut open = Vec::new();
            for _ in 0..connections {
                let connecting = endpoint.connect(server.address, "localhost").unwrap();
                open.push(connecting.await.unwrap());
            }
            open
        });
        Self {
            runtime,
            connections,
        }
    }

    pub(crate) fn run(&mut self, load: &Load) {
        let Load {
            streams,
            requests,
            length,
            ..
        } = *load;
        self.runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for connection in &self.connections {
                for _ in 0..streams {
                    let connection = connection.clone();
                    tasks.spawn(async move {
                        for _ in 0..requests {
                            ask(&connection, length).await;
                        }
                    });
                }
            }
            while let Some(result) = tasks.join_next().await {
                result.unwrap();
            }
        });
    }
}

async fn ask(connection: &quinn::Connection, length: usize) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let mut request = [0; REQUEST_LEN];
    request[..8].copy_from_slice(&(length as u64).to_be_bytes());
    send.write_all(&request).await.unwrap();
    send.finish().unwrap();
    let mut received = 0;
    while let Some(chunk) = recv.read_chunk(usize::MAX, false).await.unwrap() {
        received += chunk.bytes.len();
    }
    assert_eq!(received, length);
}
