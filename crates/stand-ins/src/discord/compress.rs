//! Transport compression of the gateway (`compress=zlib-stream`).

use flate2::{Compress, Compression, FlushCompress};

/// One zlib context for a whole connection. Every message ends with a sync flush, `00 00 FF FF`.
pub(super) struct ZlibStream(Compress);

impl ZlibStream {
    pub fn new() -> ZlibStream {
        ZlibStream(Compress::new(Compression::fast(), true))
    }

    pub fn message(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() / 2 + 64);
        let mut rest = text;
        loop {
            out.reserve(4096);
            let before = self.0.total_in();
            // Compression does not fail: any bytes are valid input, and there is always room for output.
            let flushed = self.0.compress_vec(rest, &mut out, FlushCompress::Sync);
            let read = usize::try_from(self.0.total_in() - before).unwrap_or(rest.len());
            rest = &rest[read..];
            let has_room = out.len() < out.capacity();
            if flushed.is_err() || (rest.is_empty() && has_room) {
                return out;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress};

    use super::*;

    #[test]
    fn messages_share_one_stream_and_each_ends_with_the_flush_mark() {
        let mut stream = ZlibStream::new();
        let mut inflate = Decompress::new(true);
        for text in ["{}".to_owned(), "abc".repeat(50_000), "x".to_owned()] {
            let sent = stream.message(text.as_bytes());
            assert_eq!(sent[sent.len() - 4..], [0, 0, 0xff, 0xff]);
            let mut got = Vec::with_capacity(text.len() + 64);
            inflate.decompress_vec(&sent, &mut got, FlushDecompress::Sync).unwrap();
            assert_eq!(got, text.as_bytes());
        }
    }
}
