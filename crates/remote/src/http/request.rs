//! A request.

/// A request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'static str,
    /// The path and the query, encoded.
    pub(crate) target: &'a str,
    /// Headers, `Host` among them. The length of the body is added.
    pub(crate) headers: &'a [(&'static str, String)],
    pub(crate) body: &'a [u8],
}

impl Request<'_> {
    /// Returns the head, the blank line at its end included.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || matches!(self.method, "PUT" | "POST") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}
