//! Keys of session tickets that the edges of a fleet draw in turn.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hikyaku_fleet::{Content, Lease, Topic};
use tokio_util::sync::CancellationToken;

use super::Membership;
use crate::secrets::{Epoch, Secrets};

/// The one register of its topic.
const NAME: &str = "all";
/// Between looks whether another key is due.
const LOOK: Duration = Duration::from_secs(5);
/// For so long one edge draws the next key, and no other.
const LEASE: Duration = Duration::from_secs(30);
/// How long the store may take meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Uses the keys that the fleet's store has, and draws the next where no other edge does. Without the store
/// those stay in use for their time, and keys that are derived from the fleet's file come after them.
pub(crate) async fn rotate_together(
    secrets: Arc<Secrets>,
    fleet: Arc<Membership>,
    end: CancellationToken,
) {
    let mut changed = secrets.board.changed();
    loop {
        if take(&secrets) {
            end.run_until_cancelled(draw(&secrets, &fleet)).await;
        }
        let waited = tokio::time::timeout(LOOK, changed.changed());
        if end.run_until_cancelled(waited).await.is_none() {
            return;
        }
    }
}

/// Takes the keys that are held into use; says whether another is due.
fn take(secrets: &Secrets) -> bool {
    let held = secrets.board.get(Topic::Tickets, NAME);
    let epochs = held.map(|content| Epoch::decode(&content.bytes));
    secrets.store_keys(epochs.unwrap_or_default())
}

/// Draws another key, unless another edge does.
async fn draw(secrets: &Secrets, membership: &Membership) {
    let Some(joined) = membership.joined.load_full() else {
        return;
    };
    let fleet = &joined.fleet;
    if !joined.config.seals() || fleet.lease(Topic::Tickets, NAME, LEASE).await != Lease::Taken {
        return;
    }
    // Another may just have drawn it.
    if fleet.sync(PATIENCE).await && take(secrets) {
        match secrets.next_keys() {
            Ok(epochs) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let content = Content {
                    stamp: (now.map_or(0, |now| now.as_secs()), 0),
                    until: Epoch::end(&epochs),
                    title: "keys of session tickets".to_owned(),
                    bytes: Epoch::encode(&epochs),
                };
                secrets.board.put(Topic::Tickets, NAME, content);
                fleet.sync(PATIENCE).await;
                take(secrets);
                tracing::debug!("the fleet's next key of session tickets is drawn");
            }
            Err(error) => tracing::warn!("drawing a key of session tickets: {error}"),
        }
    }
    fleet.release(Topic::Tickets, NAME).await;
}
