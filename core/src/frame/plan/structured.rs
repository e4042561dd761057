//! Plans of palette frames and of sparse frames.

use super::segments::{Budget, Stop};
use super::{DevicePlan, Join, PlacedFrame, Reason};
use crate::frame::{FrameFamily as _, palette, sparse};

impl DevicePlan {
    /// Adds the codebook and the index of a palette frame (docs/formats/z4ai-frames.md 10).
    pub(super) fn add_palette(
        &mut self,
        placed: &PlacedFrame,
        frame: &palette::Frame,
    ) -> Result<(), Stop> {
        let mut budget = Budget::of(placed.bytes);
        let (width, elements) = (frame.width().into(), frame.elements());
        if elements > 0 {
            let planes = frame.coded();
            let join = Join::Palette;
            let count = planes.len();
            let tensor = self.open_tensor(&mut budget, placed, join, width, elements, count)?;
            for (coded, len_bytes) in planes {
                self.open_scratch_plane(&mut budget, len_bytes, tensor)?;
                self.add_zstd(&mut budget, placed, 0, coded, len_bytes)?;
            }
        }
        self.finish(&mut budget, placed, frame.info().tail())
    }

    /// Adds the bitmap and the values of a sparse frame (docs/formats/z4ai-frames.md 9).
    pub(super) fn add_sparse(
        &mut self,
        placed: &PlacedFrame,
        frame: &sparse::Frame,
    ) -> Result<(), Stop> {
        let mut budget = Budget::of(placed.bytes);
        let (width, elements) = (frame.width().into(), frame.elements());
        if elements > 0 {
            let ((bitmap, bitmap_bytes), values) = frame.coded();
            let streams = values.map_or(&[][..], |values| values.coded_streams());
            if streams.len() > 1 && streams.len() != width {
                return Err(Stop::Cpu(Reason::Family));
            }
            let join = Join::Sparse;
            let count = 1 + streams.len();
            let tensor = self.open_tensor(&mut budget, placed, join, width, elements, count)?;
            self.open_scratch_plane(&mut budget, bitmap_bytes, tensor)?;
            self.add_zstd(&mut budget, placed, 0, bitmap, bitmap_bytes)?;
            for stream in streams {
                let len_bytes = stream.len_bytes();
                self.open_scratch_plane(&mut budget, len_bytes, tensor)?;
                match stream.payload() {
                    (stored, true) => self.add_stored(&mut budget, placed, 0, stored)?,
                    (coded, false) => self.add_zstd(&mut budget, placed, 0, coded, len_bytes)?,
                }
            }
        }
        self.finish(&mut budget, placed, frame.info().tail())
    }
}
