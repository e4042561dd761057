//! Builds `ZXQ1` frames field by field, with inner frames that store their bytes
//! uncompressed.

/// The fields of a frame, which need not be consistent.
#[derive(Debug, Clone, Default)]
pub struct LatticeFields {
    /// Dtype of the elements, grid type, and flags.
    pub dtype_grid_flags: [u8; 3],
    /// Rows, columns, rows per group and columns per group.
    pub geometry: [u32; 4],
    /// Size of the grid and dtype of the scales.
    pub size_scales: [u8; 2],
    /// The table of grid 1.
    pub table: Vec<f32>,
    /// The encoded inner frames.
    pub frames: Vec<Vec<u8>>,
}

impl LatticeFields {
    /// Encodes the frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut out = b"ZXQ1\x01".to_vec();
        out.extend_from_slice(&self.dtype_grid_flags);
        out.extend(self.geometry.iter().flat_map(|field| field.to_le_bytes()));
        out.extend_from_slice(&self.size_scales);
        out.extend(self.table.iter().flat_map(|value| value.to_le_bytes()));
        for frame in &self.frames {
            out.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        }
        out.extend(self.frames.concat());
        out
    }
}

/// Returns a `Z4AI` frame that stores `bytes` uncompressed.
#[must_use]
pub fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut frame = b"Z4AI\x01\0\0\x01\x01\0\0\0\0\0\0\0\0".to_vec();
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(bytes);
    frame
}
