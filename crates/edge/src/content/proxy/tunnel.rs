//! Connections that have become another protocol's, as WebSocket does.

use std::io;
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::activity::Activity;

/// Copies between client and upstream once both have changed protocol, until
/// both have ended, one fails, or nothing moves for `idle`.
pub(super) async fn run(client: OnUpgrade, upstream: OnUpgrade, idle: Duration) {
    let (client, upstream) = match tokio::try_join!(client, upstream) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "upgrading a connection");
            return;
        }
    };
    if let Err(error) = copy_both(client, upstream, idle).await {
        tracing::debug!(%error, "copying between client and upstream");
    }
}

async fn copy_both(client: Upgraded, upstream: Upgraded, idle: Duration) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_upstream, mut to_upstream) = tokio::io::split(TokioIo::new(upstream));
    let activity = Activity::new();
    let both = async {
        tokio::try_join!(
            copy(&mut from_client, &mut to_upstream, &activity),
            copy(&mut from_upstream, &mut to_client, &activity),
        )
    };
    tokio::select! {
        result = both => result.map(|_| ()),
        () = activity.stalled(idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Copies to the end of `from` and passes that end on.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        activity.touch();
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
        activity.touch();
    }
}

const BUFFER: usize = 16 * 1024;
