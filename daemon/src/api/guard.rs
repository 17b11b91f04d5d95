//! The checks at the door, before any route: who is addressed and from where, and the headers
//! that every answer carries. A web page must not reach the socket through a browser's mistakes.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tidings_wire::local::{API_VERSION, API_VERSION_HEADER, SOCKET_HOST};

use super::error::{ApiError, Code};

/// Passes a request on, or refuses it, and completes the answer.
pub async fn check(request: Request, next: Next) -> Response {
    let mut response = match admit(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(HeaderName::from_static(API_VERSION_HEADER), API_VERSION);
    set(CACHE_CONTROL, "no-store");
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(CONTENT_SECURITY_POLICY, "default-src 'none'");
    response
}

fn admit(request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let host = request.uri().authority().map(|authority| authority.as_str()).or_else(|| {
        let mut all = headers.get_all(HOST).iter();
        let one = all.next().and_then(|value| value.to_str().ok());
        // Two of them is smuggling, not addressing.
        if all.next().is_some() { None } else { one }
    });
    // HTTP/1.0 has no Host, and no browser speaks it.
    let old = request.version() == Version::HTTP_10 && !headers.contains_key(HOST);
    if !old && !host.is_some_and(is_ours) {
        return Err(ApiError::new(Code::BadHost, "the Host header names somebody else")
            .hint(format!("send `Host: {SOCKET_HOST}` or `Host: localhost`")));
    }
    if headers.contains_key(ORIGIN) || headers.contains_key(REFERER) || is_cross_site(headers) {
        return Err(ApiError::new(Code::BadOrigin, "web pages may not use this socket"));
    }
    Ok(())
}

fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case(SOCKET_HOST) || name.eq_ignore_ascii_case("localhost")
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    let site = headers.get(HeaderName::from_static("sec-fetch-site"));
    site.is_some_and(|site| site != "none" && site != "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_ours() {
        for ours in ["tidings.localhost", "localhost", "LOCALHOST", "localhost:80"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["", "localhost.evil.example", "evil.example", "127.0.0.1", "localhost:x"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
