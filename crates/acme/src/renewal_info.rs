//! When the authority wants a certificate to be renewed (RFC 9773).

use instant_acme::{Account, CertificateIdentifier, Error};

use crate::failure::chain;
use crate::record::StoredPair;
use crate::schedule::{DAY, Window};

/// An authority's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` where the authority has no renewal information.
    pub(crate) window: Option<Window>,
    /// Seconds until the next question.
    pub(crate) again: i64,
}

/// Asks for the window of a certificate.
///
/// # Errors
/// When the authority does not answer as it should, in words.
pub(crate) async fn ask(account: &Account, pair: &StoredPair) -> Result<Answer, String> {
    let id = identifier(pair)?;
    match account.renewal_info(&id).await {
        Ok((info, again)) => Ok(Answer {
            window: Some(Window {
                from: info.suggested_window.start.unix_timestamp(),
                to: info.suggested_window.end.unix_timestamp(),
            }),
            again: i64::try_from(again.as_secs()).unwrap_or(i64::MAX),
        }),
        Err(Error::Unsupported(_)) => Ok(Answer {
            window: None,
            again: DAY,
        }),
        Err(error) => Err(chain(&error)),
    }
}

/// The name of a certificate in the protocol (RFC 9773 §4.1).
///
/// # Errors
/// When the certificate has no key identifier of its authority.
pub(crate) fn identifier(pair: &StoredPair) -> Result<CertificateIdentifier<'static>, String> {
    let chain = pair.chain()?;
    let leaf = chain.first().ok_or("the chain is empty")?;
    CertificateIdentifier::try_from(leaf)
}
