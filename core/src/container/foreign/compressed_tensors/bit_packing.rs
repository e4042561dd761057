//! The two bit packings of pack-quantized, and the choice between them
//! (docs/formats/compressed-tensors.md 7.2 and 7.3).

use alloc::format;
use alloc::vec::Vec;

use super::bitstring::Layout;
use super::geometry::{Geometry, stored_shape};
use super::part::View;
use super::stored::Stored;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// Returns the layouts that a weight of `bits` bits may have, the likelier one
/// first. `older` is true for files of releases before 0.18.
fn layouts(bits: u8, older: bool) -> [Layout; 2] {
    let (dense, padded) = (Layout::dense(bits), Layout::padded(bits));
    if older {
        [padded, dense]
    } else {
        [dense, padded]
    }
}

fn holds(layout: Layout, columns: u64, packed: &Stored) -> bool {
    packed.shape.last() == Some(&layout.words(columns))
}

/// Returns the dense shape, which must fit the shape of the packed codes.
pub fn dense_shape(bits: u8, shape: View<'_>, packed: &Stored) -> Result<Vec<u64>> {
    let dense = stored_shape(shape, packed.shape.len())?;
    let fits = match (dense.as_slice(), packed.shape.as_slice()) {
        ([rows @ .., columns], [packed_rows @ .., _]) => {
            rows == packed_rows
                && layouts(bits, false)
                    .iter()
                    .any(|&layout| holds(layout, *columns, packed))
        }
        _ => false,
    };
    if fits && element_count(&dense).is_some() {
        return Ok(dense);
    }
    Err(Error::malformed(
        Rule::CompressedTensorsShape,
        format!(
            "a weight of shape {dense:?} and {bits} bits does not pack into the shape {:?}",
            packed.shape
        ),
    ))
}

/// Returns the layout of the codes and of packed zero points. It is the one
/// that fits the stored shapes or, if both do, the one that the release uses.
pub fn layout(
    bits: u8,
    older: bool,
    geometry: &Geometry,
    packed: &Stored,
    zeros: Option<&Stored>,
) -> Result<Layout> {
    let fits = |layout: Layout| {
        holds(layout, geometry.columns, packed)
            && zeros.is_none_or(|zeros| match zeros.shape.as_slice() {
                [.., words, _] => *words == layout.words(geometry.rows),
                _ => false,
            })
    };
    layouts(bits, older).into_iter().find(|&l| fits(l)).ok_or_else(|| {
        Error::malformed(
            Rule::CompressedTensorsShape,
            format!(
                "packed codes of shape {:?} and packed zero points of shape {:?} do not match {} \
                 rows and {} columns",
                packed.shape,
                zeros.map(|zeros| &zeros.shape),
                geometry.rows,
                geometry.columns
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn stored(shape: &[u64]) -> Stored {
        Stored {
            name: "p".into(),
            dtype: Dtype::I32,
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn shapes_decide_before_the_release() {
        let geometry = Geometry::new(vec![7, 40]).unwrap();
        let choose = |older, words| layout(3, older, &geometry, &stored(&[7, words]), None);
        // 40 codes of 3 bits take 4 words in both packings.
        assert_eq!(choose(true, 4).unwrap(), Layout::padded(3));
        assert_eq!(choose(false, 4).unwrap(), Layout::dense(3));
        let geometry = Geometry::new(vec![21, 50]).unwrap();
        // 50 codes take 5 words in both packings, but 21 zero points take 3 or
        // 2.
        for older in [false, true] {
            let choose = |words| {
                layout(
                    3,
                    older,
                    &geometry,
                    &stored(&[21, 5]),
                    Some(&stored(&[words, 1])),
                )
            };
            assert_eq!(choose(3).unwrap(), Layout::padded(3));
            assert_eq!(choose(2).unwrap(), Layout::dense(3));
            assert!(choose(4).is_err());
        }
    }
}
