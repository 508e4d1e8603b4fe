//! The head of an answer, and how its body ends.

use httparse::{EMPTY_HEADER, Response, Status};

use super::failure::Failure;

/// The maximum number of headers in an answer.
const MOST_HEADERS: usize = 128;

/// An answer, whose body is complete.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status, such as 200.
    pub(crate) status: u16,
    /// The headers' names in lower case, and their values.
    headers: Vec<(String, String)>,
    /// The body. That of a status other than 2xx may be cut: it is an error's text.
    pub(crate) body: Vec<u8>,
    /// Whether the server may have done what was requested before, too: the request was sent again over a new connection.
    pub(crate) was_repeated: bool,
}

/// How the body of an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// After this number of bytes.
    Length(u64),
    /// With a chunk of length 0.
    Chunked,
    /// With the connection: nothing shows whether it is complete.
    Connection,
}

impl Answer {
    /// Parses a head, the blank line at its end included.
    pub(super) fn parse(head: &[u8]) -> Result<(Self, Version), Failure> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = Response::new(&mut headers);
        match response.parse(head) {
            Ok(Status::Complete(_)) => {}
            Ok(Status::Partial) => return Err(Failure::invalid("the head of an HTTP answer is cut")),
            Err(error) => return Err(Failure::invalid(format!("the head of an HTTP answer: {error}"))),
        }
        let headers = response.headers.iter().map(|header| {
            (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
        });
        let status = response.code.unwrap_or_default();
        let version = if response.version == Some(1) { Version::Http11 } else { Version::Http10 };
        Ok((Self { status, headers: headers.collect(), body: Vec::new(), was_repeated: false }, version))
    }

    /// Returns the first header of this name, in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    fn values<'a, 'b>(&'a self, name: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        self.headers.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.trim())
    }

    /// Whether the server keeps the connection open.
    pub(super) fn keeps_connection(&self, version: Version) -> bool {
        let mut words = self.values("connection").flat_map(|value| value.split(','));
        version == Version::Http11 && !words.any(|word| word.trim().eq_ignore_ascii_case("close"))
    }

    /// Returns how the body ends, `None` if there is none.
    pub(super) fn body_end(&self, method: &str) -> Result<Option<BodyEnd>, Failure> {
        if method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(None);
        }
        let mut codings = self.values("transfer-encoding");
        match (codings.next(), codings.next()) {
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => {
                return Ok(Some(BodyEnd::Chunked));
            }
            (Some(_), _) => {
                return Err(Failure::invalid("an HTTP answer has an unknown `Transfer-Encoding`"));
            }
            (None, _) => {}
        }
        let mut length = None;
        for text in self.values("content-length") {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| is_number);
            let number = number.ok_or_else(|| Failure::invalid("the `Content-Length` is no number"))?;
            if length.is_some_and(|length| length != number) {
                return Err(Failure::invalid("an HTTP answer has two values of `Content-Length`"));
            }
            length = Some(number);
        }
        Ok(Some(length.map_or(BodyEnd::Connection, BodyEnd::Length)))
    }
}

/// The version of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    Http11,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> (Answer, Version) {
        Answer::parse(head.replace('\n', "\r\n").as_bytes()).unwrap()
    }

    fn end(head: &str, method: &str) -> Result<Option<BodyEnd>, Failure> {
        parsed(head).0.body_end(method)
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let (answer, version) = parsed("HTTP/1.1 404 Not Found\nETag:  \"x\" \nDATE: now\n\n");
        assert_eq!(
            (answer.status, answer.header("etag"), answer.header("date")),
            (404, Some("\"x\""), Some("now"))
        );
        assert_eq!((answer.header("server"), version), (None, Version::Http11));
    }

    #[test]
    fn bodies_end() {
        let ends = [
            ("HTTP/1.1 200 OK\nContent-Length: 12\n\n", Some(BodyEnd::Length(12))),
            ("HTTP/1.1 200 OK\nContent-Length: 0\ncontent-length: 0\n\n", Some(BodyEnd::Length(0))),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n", Some(BodyEnd::Chunked)),
            ("HTTP/1.1 200 OK\n\n", Some(BodyEnd::Connection)),
            ("HTTP/1.1 204 No Content\nContent-Length: 5\n\n", None),
            ("HTTP/1.1 100 Continue\n\n", None),
        ];
        for (head, expected) in ends {
            assert_eq!(end(head, "GET").unwrap(), expected, "{head}");
            assert_eq!(end(head, "HEAD").unwrap(), None, "{head}");
        }
        for head in [
            "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n\n",
            "HTTP/1.1 200 OK\nContent-Length: +1\n\n",
            "HTTP/1.1 200 OK\nContent-Length: \n\n",
            "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999\n\n",
            "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\n",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n",
        ] {
            assert!(matches!(end(head, "GET"), Err(Failure::Invalid(_))), "{head}");
        }
    }

    #[test]
    fn connections_are_kept() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\n\n", true),
            ("HTTP/1.1 200 OK\nConnection: keep-alive, Close\n\n", false),
            ("HTTP/1.0 200 OK\n\n", false),
        ] {
            let (answer, version) = parsed(head);
            assert_eq!(answer.keeps_connection(version), expected, "{head}");
        }
    }

    #[test]
    fn other_protocols_are_invalid() {
        for head in ["+OK\r\n\r\n", "HTTP/2 200\r\n\r\n", "\0\0\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n"] {
            assert!(matches!(Answer::parse(head.as_bytes()), Err(Failure::Invalid(_))), "{head:?}");
        }
    }
}
