//! Formatting of sizes, rates and ratios. 1 MB is 10^6 bytes.

pub use zstn::display::size as bytes;
use zstn_core::catalog::{FileCatalog, FileKind};
use zstn_core::model::{Model, TensorInfo};

/// Returns the length in bytes with which the stored length of a model is compared: the
/// length of the file that `packed` restores or of the files that the model was packed
/// from; for files of other formats, the length of all tensors, in which quantised values
/// count as they are stored.
pub fn original_bytes(model: &Model, packed: Option<&FileCatalog>) -> u64 {
    match (packed, model.kind()) {
        (Some(packed), _) => packed.original_len_bytes(),
        (None, FileKind::Safetensors | FileKind::Zstn | FileKind::Delta) => {
            model.original_len_bytes()
        }
        (None, _) => {
            let lens = model.tensors().iter().map(TensorInfo::original_len_bytes);
            lens.fold(0, u64::saturating_add)
        }
    }
}

/// Returns original over packed, such as `1.222×`.
pub fn ratio(original: u64, packed: u64) -> String {
    if packed == 0 {
        return "–".into();
    }
    format!("{:.3}×", original as f64 / packed as f64)
}

/// Returns a rate such as `512 MB/s`.
pub fn rate(bytes: u64, seconds: f64) -> String {
    format!("{:.0} MB/s", bytes as f64 / 1e6 / seconds.max(1e-9))
}

/// Parses a size such as `512M`, `2GiB` or `1000000`. K, M, G and T are powers of 1024,
/// as is usual for memory.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a whole number with K, M, G or T behind it, like 512M".to_owned();
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_are_read() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("2gib"), Ok(2 << 30));
        assert_eq!(parse("77"), Ok(77));
        for bad in ["", "M", "1.5G", "9X", "99999999999T"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
