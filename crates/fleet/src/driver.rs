//! The task that alone connects, writes and looks after the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::beat::{Contents, Pulse};
use crate::board::Sync;
use crate::clock;
use crate::connect;
use crate::fault::Fault;
use crate::link::Link;
use crate::purges::Purges;
use crate::shared::{Host, Shared};
use crate::writer::Writer;

/// Between two turns, on average: others learn later by it, and by the time of the write.
const INTERVAL: Duration = Duration::from_secs(2);

/// A time about [`INTERVAL`]. Edges in step would not see each other's fields change, nor spare the store.
fn interval() -> Duration {
    let share = (clock::random() % 1024) as f64 / 1024.0;
    INTERVAL.mul_f64(0.75 + 0.5 * share)
}

/// The task, with its knowledge of the store.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) pulse: Pulse,
    pub(crate) writer: Writer,
    pub(crate) purges: Purges,
    pub(crate) sync: Sync,
}

impl Driver {
    /// Works until `stop`, then writes the rest.
    pub(crate) async fn drive(mut self, stop: CancellationToken) {
        self.work(&stop).await;
        self.shared.left();
    }

    async fn work(&mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(self.shared.wait()) => {}
            }
            if !self.shared.allows() {
                continue;
            }
            let dialed = tokio::select! {
                () = stop.cancelled() => return,
                dialed = connect::dial(&self.shared.config) => dialed,
            };
            match dialed {
                Ok(link) => self.connected(link, stop).await,
                Err(fault) => self.shared.gave_up(fault),
            }
        }
    }

    /// Works over a link for as long as it is of use.
    async fn connected(&mut self, link: Link, stop: &CancellationToken) {
        self.purges.resumed();
        self.sync.resumed();
        // A store that takes connections may still be hung, or not be what it seems.
        if let Err(fault) = self.turn(&link).await {
            return self.shared.gave_up(fault);
        }
        self.shared.came_up(link.clone());
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    // A last turn, which a stop does not wait long for.
                    let _ = timeout(INTERVAL, self.turn(&link)).await;
                    return;
                }
                () = self.shared.broken.notified() => {}
                () = self.due() => match self.turn(&link).await {
                    Ok(()) => self.shared.answered(),
                    Err(fault) => self.shared.failed(fault),
                }
            }
            if !self.shared.is_up() {
                return;
            }
        }
    }

    /// The next turn is due: in time, or since something waits for it.
    async fn due(&self) {
        tokio::select! {
            () = sleep(interval()) => {}
            () = self.shared.board.wake.notified() => {}
        }
    }

    async fn turn(&mut self, link: &Link) -> Result<(), Fault> {
        let number = self.shared.begun.fetch_add(1, Ordering::SeqCst) + 1;
        self.parts(link).await?;
        self.shared.done.send_replace(number);
        Ok(())
    }

    async fn parts(&mut self, link: &Link) -> Result<(), Fault> {
        let (shared, host) = (&*self.shared, &*self.host);
        match self.pulse.beat(shared, link).await? {
            Contents::Same => {}
            Contents::First => host.mark_all(),
            Contents::Other => {
                host.mark_all();
                self.purges.restarted();
            }
        }
        self.purges.apply(shared, link, host).await?;
        let unwritten = self.sync.run(shared, link).await?;
        self.writer.write(shared, link, host, unwritten).await
    }
}
