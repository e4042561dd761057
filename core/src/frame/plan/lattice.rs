//! Plans of lattice frames (docs/formats/zxq1.md).

use super::segments::{Budget, Stop, number};
use super::{DevicePlan, Join, Lattice, LatticeGroup, NONE, PlacedFrame, Reason};
use crate::engine::Engine;
use crate::frame::lattice::{self, Grid};
use crate::frame::{Frame, FrameFamily as _};

impl DevicePlan {
    /// Adds the symbols of a lattice, and its scales and zero offsets, which the host
    /// decodes.
    pub(super) fn add_lattice<E: Engine>(
        &mut self,
        engine: &E,
        placed: &PlacedFrame,
        frame: &lattice::Frame,
    ) -> Result<(), Stop> {
        let head = frame.head();
        let Frame::Z4ai(symbols) = frame.symbols() else {
            return Err(Stop::Cpu(Reason::Family));
        };
        let ([plane], true) = (symbols.planes(), symbols.info().tail().is_empty()) else {
            return Err(Stop::Cpu(Reason::Family));
        };
        let Some((values, negative_zero)) = values(&head.grid).filter(|_| !head.has_exceptions)
        else {
            return Err(Stop::Cpu(Reason::Family));
        };
        let mut budget = Budget::of(placed.bytes);
        budget.spend::<Lattice>()?;
        budget.spend_all::<LatticeGroup>(head.geometry.groups())?;
        let index = number(self.lattices.len())?;
        self.lattices.push(Lattice {
            values,
            columns: head.geometry.columns,
            group_rows: head.geometry.group_rows,
            group_columns: head.geometry.group_columns,
            dtype: head.elements as u32,
            first_group: number(self.lattice_groups.len())?,
            negative_zero,
        });
        let (scales, offsets) = frame.group_properties(engine)?;
        let offsets = offsets.iter().map(|&offset| i32::from(offset) - 128);
        let groups = scales.iter().zip(offsets.chain(core::iter::repeat(0)));
        self.lattice_groups
            .extend(groups.map(|(scale, offset)| LatticeGroup {
                scale: scale.to_bits(),
                offset,
            }));
        number(self.lattice_groups.len())?;
        let (elements, width) = (head.geometry.elements(), head.elements.len_bytes());
        let join = Join::Lattice;
        let tensor = self.open_tensor(&mut budget, placed, join, width, elements, 1)?;
        if let Some(joined) = self.tensors.last_mut() {
            joined.parameter = index;
        }
        self.open_scratch_plane(&mut budget, plane.len_bytes(), tensor)?;
        self.add_segments(engine, &mut budget, placed, plane)?;
        self.finish(&mut budget, placed, &[])
    }
}

/// Returns the bits of the value of every symbol, without the offset of its group, and the
/// symbol that gets no offset. Returns `None` for grids with symbols of two bytes.
fn values(grid: &Grid) -> Option<([u32; 256], u32)> {
    // `first` is the value of symbol 0.
    let (first, negative_zero) = match grid {
        Grid::Integers { largest } => (-i16::from(*largest), 2 * u16::from(*largest) + 1),
        Grid::OffsetIntegers { last } => (0, u16::from(*last) + 1),
        Grid::Table(_) | Grid::E4m3 => {
            let values = grid.values();
            let value = |symbol: u8| match grid.holds(&[symbol]) {
                true => values.get(usize::from(symbol)).copied().unwrap_or(f32::NAN),
                false => f32::NAN,
            };
            return Some((each(value), NONE));
        }
        Grid::F16 | Grid::Bf16 => return None,
    };
    let value = |symbol: u8| match u16::from(symbol) {
        symbol if symbol == negative_zero => -0.0,
        symbol if symbol > negative_zero => f32::NAN,
        _ => f32::from(first + i16::from(symbol)),
    };
    let skipped = match grid {
        Grid::OffsetIntegers { .. } => u32::from(negative_zero),
        _ => NONE,
    };
    Some((each(value), skipped))
}

/// Returns the bits of the values of all symbols.
fn each(value: impl Fn(u8) -> f32) -> [u32; 256] {
    core::array::from_fn(|symbol| value(symbol.to_le_bytes()[0]).to_bits())
}
