//! Demands on the API that another part of the program meets. Who asks hears how it ends.

use tokio::sync::{Mutex, mpsc, oneshot};

/// Why something was not done.
#[derive(Debug)]
pub(super) enum DemandError {
    /// It was refused, and everything stays as it was.
    Refused(String),
    /// Another demand waits, or the server stops.
    Busy,
}

/// The work that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Read the configuration again.
    Reload,
    /// Start another process that takes over.
    Upgrade,
}

/// An order whose outcome somebody waits for.
#[derive(Debug)]
pub struct Demand {
    order: Order,
    answer: oneshot::Sender<Result<(), String>>,
}

impl Demand {
    /// The work that is asked for.
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Reports how it ended, with all causes where it was refused.
    pub fn answer(self, outcome: Result<(), String>) {
        // Whoever asked may have gone.
        let _ = self.answer.send(outcome);
    }
}

/// Hands demands to the part of the program that meets them.
#[derive(Debug)]
pub(crate) struct Demands {
    asked: mpsc::Sender<Demand>,
    demands: Mutex<mpsc::Receiver<Demand>>,
}

impl Default for Demands {
    fn default() -> Self {
        let (asked, demands) = mpsc::channel(1);
        Self {
            asked,
            demands: Mutex::new(demands),
        }
    }
}

impl Demands {
    /// The next one. Never ends: `self` keeps a sender.
    pub(crate) async fn next(&self) -> Option<Demand> {
        self.demands.lock().await.recv().await
    }

    /// Asks for something and waits for its end.
    pub(super) async fn ask(&self, order: Order) -> Result<(), DemandError> {
        let (answer, outcome) = oneshot::channel();
        let asked = self.asked.try_send(Demand { order, answer });
        asked.map_err(|_| DemandError::Busy)?;
        let outcome = outcome.await.map_err(|_| DemandError::Busy)?;
        outcome.map_err(DemandError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_hears_how_it_ended() {
        let demands = Demands::default();
        let ask = || demands.ask(Order::Reload);
        let answer = async |outcome| {
            let demand = demands.next().await.unwrap();
            assert_eq!(demand.order(), Order::Reload);
            demand.answer(outcome);
        };
        let (asked, ()) = tokio::join!(ask(), answer(Ok(())));
        assert!(asked.is_ok());
        let (asked, ()) = tokio::join!(ask(), answer(Err("line 3".to_owned())));
        assert!(matches!(asked, Err(DemandError::Refused(why)) if why == "line 3"));
        let drop_it = async { drop(demands.next().await) };
        let (asked, ()) = tokio::join!(ask(), drop_it);
        assert!(matches!(asked, Err(DemandError::Busy)));
        let (first, second) = tokio::join!(
            async { tokio::time::timeout(std::time::Duration::ZERO, ask()).await },
            ask()
        );
        assert!(first.is_err());
        assert!(matches!(second, Err(DemandError::Busy)));
    }
}
