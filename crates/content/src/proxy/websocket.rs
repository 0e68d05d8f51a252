//! WebSocket of HTTP/2 and 3 towards an upstream that has it over HTTP/1.1.
//!
//! Extended CONNECT (RFC 8441 §5, RFC 9220 §3) needs neither `Sec-WebSocket-Key` nor
//! `Sec-WebSocket-Accept`; the handshake of RFC 6455 §4 needs both.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand::SecureRandom;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION};
use http::{HeaderValue, Method, StatusCode, request, response};

use super::error::SendError;

/// The key whose digest proves that an upstream has understood the handshake.
#[derive(Debug)]
pub(super) struct Key(String);

impl Key {
    /// Makes a key of 16 random bytes (RFC 6455 §4.1).
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(super) fn random() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::SystemRandom::new().fill(&mut bytes)?;
        Ok(Self(STANDARD.encode(bytes)))
    }

    /// Turns an extended CONNECT into the request of a handshake, except for its `Upgrade`.
    pub(super) fn ask(&self, request: &mut request::Parts) {
        request.method = Method::GET;
        let headers = &mut request.headers;
        // The client's stream has no length.
        headers.remove(header::CONTENT_LENGTH);
        if let Ok(key) = HeaderValue::from_str(&self.0) {
            headers.insert(SEC_WEBSOCKET_KEY, key);
        }
        headers
            .entry(SEC_WEBSOCKET_VERSION)
            .or_insert(HeaderValue::from_static("13"));
    }

    /// Turns the response of an upstream that has switched protocols into that to an extended
    /// CONNECT.
    ///
    /// # Errors
    /// If the upstream has switched to another protocol, or has not understood the key (RFC 6455
    /// §4.1).
    pub(super) fn accept(
        &self,
        response: &mut response::Parts,
        protocol: Option<&HeaderValue>,
    ) -> Result<(), SendError> {
        let accept = response.headers.remove(SEC_WEBSOCKET_ACCEPT);
        let is_named =
            protocol.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(NAME.as_bytes()));
        let is_understood =
            accept.is_some_and(|accept| accept.as_bytes() == self.accepted().as_bytes());
        if !is_named || !is_understood {
            return Err(SendError::NoWebSocket);
        }
        response.status = StatusCode::OK;
        response.headers.remove(header::CONTENT_LENGTH);
        Ok(())
    }

    /// The `Sec-WebSocket-Accept` for this key (RFC 6455 §4.2.2).
    fn accepted(&self) -> String {
        let text = [self.0.as_str(), GUID].concat();
        STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
    }
}

/// The protocol's name in `Upgrade`.
pub(super) const NAME: &str = "websocket";

/// The fixed GUID of RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use http::{Request, Response};

    use super::*;

    #[test]
    fn a_key_has_one_answer() {
        // The example of RFC 6455 §1.3.
        let key = Key("dGhlIHNhbXBsZSBub25jZQ==".to_owned());
        assert_eq!(key.accepted(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let (right, wrong) = (
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "t3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        );
        let itself = "dGhlIHNhbXBsZSBub25jZQ==";
        let cases = [
            ("the answer", Some(right), Some("websocket"), true),
            ("in capitals", Some(right), Some("WebSocket"), true),
            ("none", None, Some("websocket"), false),
            ("another", Some(wrong), Some("websocket"), false),
            ("the key itself", Some(itself), Some("websocket"), false),
            ("another protocol", Some(right), Some("chat"), false),
            ("no protocol", Some(right), None, false),
        ];
        for (name, accept, protocol, want) in cases {
            let mut response = Response::builder().status(101);
            if let Some(accept) = accept {
                response = response.header(SEC_WEBSOCKET_ACCEPT, accept);
            }
            let (mut head, ()) = response.body(()).unwrap().into_parts();
            let protocol = protocol.map(HeaderValue::from_static);
            let accepted = key.accept(&mut head, protocol.as_ref());
            assert_eq!(accepted.is_ok(), want, "{name}");
            if want {
                assert_eq!(head.status, StatusCode::OK, "{name}");
                assert!(head.headers.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn a_request_gets_a_key_of_its_own() {
        let ask = || {
            let request = Request::connect("https://a.example/chat")
                .header(SEC_WEBSOCKET_KEY, "the client's")
                .header(header::CONTENT_LENGTH, "0")
                .body(());
            let (mut head, ()) = request.unwrap().into_parts();
            Key::random().unwrap().ask(&mut head);
            head
        };
        let (one, other) = (ask(), ask());
        assert_eq!(one.method, Method::GET);
        assert_eq!(one.headers[SEC_WEBSOCKET_VERSION], "13");
        assert!(!one.headers.contains_key(header::CONTENT_LENGTH));
        let key = STANDARD.decode(one.headers[SEC_WEBSOCKET_KEY].as_bytes());
        assert_eq!(key.unwrap().len(), 16);
        assert_ne!(
            one.headers[SEC_WEBSOCKET_KEY],
            other.headers[SEC_WEBSOCKET_KEY]
        );
    }
}
