//! Reloads that are asked for over the API, so that who asks hears how they end.

use tokio::sync::{Mutex, mpsc, oneshot};

/// Why a reload did not happen.
#[derive(Debug)]
pub(super) enum ReloadError {
    /// The configuration was refused, and the former one stays in force.
    Refused(String),
    /// Another reload waits, or the server stops.
    Busy,
}

/// A reload that somebody waits for.
#[derive(Debug)]
pub struct ReloadRequest {
    answer: oneshot::Sender<Result<(), String>>,
}

impl ReloadRequest {
    /// Reports how it ended, with all causes where it was refused.
    pub fn answer(self, outcome: Result<(), String>) {
        // Whoever asked may have gone.
        let _ = self.answer.send(outcome);
    }
}

/// Hands requests to the part of the program that reads the configuration.
#[derive(Debug)]
pub(crate) struct Reloads {
    asked: mpsc::Sender<ReloadRequest>,
    requests: Mutex<mpsc::Receiver<ReloadRequest>>,
}

impl Default for Reloads {
    fn default() -> Self {
        let (asked, requests) = mpsc::channel(1);
        Self {
            asked,
            requests: Mutex::new(requests),
        }
    }
}

impl Reloads {
    /// The next request. Never ends: `self` keeps a sender.
    pub(crate) async fn next(&self) -> Option<ReloadRequest> {
        self.requests.lock().await.recv().await
    }

    /// Asks for a reload and waits for its end.
    pub(super) async fn ask(&self) -> Result<(), ReloadError> {
        let (answer, outcome) = oneshot::channel();
        let asked = self.asked.try_send(ReloadRequest { answer });
        asked.map_err(|_| ReloadError::Busy)?;
        let outcome = outcome.await.map_err(|_| ReloadError::Busy)?;
        outcome.map_err(ReloadError::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_hears_how_it_ended() {
        let reloads = Reloads::default();
        let answer = async |outcome| reloads.next().await.unwrap().answer(outcome);
        let (asked, ()) = tokio::join!(reloads.ask(), answer(Ok(())));
        assert!(asked.is_ok());
        let (asked, ()) = tokio::join!(reloads.ask(), answer(Err("line 3".to_owned())));
        assert!(matches!(asked, Err(ReloadError::Refused(why)) if why == "line 3"));
        let drop_it = async { drop(reloads.next().await) };
        let (asked, ()) = tokio::join!(reloads.ask(), drop_it);
        assert!(matches!(asked, Err(ReloadError::Busy)));
        let (first, second) = tokio::join!(
            async { tokio::time::timeout(std::time::Duration::ZERO, reloads.ask()).await },
            reloads.ask()
        );
        assert!(first.is_err());
        assert!(matches!(second, Err(ReloadError::Busy)));
    }
}
