//! Frames `ZXQ1` written field by field, with inner frames that store their
//! bytes as they are.

/// The fields of a frame, in any combination.
#[derive(Debug, Clone, Default)]
pub struct LatticeFields {
    /// Dtype of the elements, grid, and flags.
    pub dtype_grid_flags: [u8; 3],
    /// Rows, columns, rows and columns of a group.
    pub geometry: [u32; 4],
    /// Size of the grid, and dtype of the scales.
    pub size_scales: [u8; 2],
    /// The table of grid 1.
    pub table: Vec<f32>,
    /// The inner frames.
    pub frames: Vec<Vec<u8>>,
}

impl LatticeFields {
    /// Returns the frame.
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

/// Returns the `Z4AI` frame that stores `bytes`.
#[must_use]
pub fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut frame = b"Z4AI\x01\0\0\x01\x01\0\0\0\0\0\0\0\0".to_vec();
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(bytes);
    frame
}
