//! A minimal gzip encoder that stores its input uncompressed (RFC 1952).

/// Returns `bytes` as a gzip file of stored blocks.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(0xffff).peekable();
    if blocks.peek().is_none() {
        file.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        file.push(u8::from(blocks.peek().is_none()));
        let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
        file.extend(len.to_le_bytes());
        file.extend((!len).to_le_bytes());
        file.extend(block);
    }
    file.extend(crc32(bytes).to_le_bytes());
    let len = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or_default();
    file.extend(len.to_le_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(sum & 1))
        })
    })
}
