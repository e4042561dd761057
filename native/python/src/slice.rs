//! Slices of tensors in any number of dimensions.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use zstn::Result;
use zstn::zstn_core::model;

use crate::aligned::Aligned;
use crate::gather::{Pick, gather};

/// A slice of a tensor, with a selection for each dimension.
pub struct Slice {
    name: String,
    shape: Vec<u64>,
    picks: Vec<Pick>,
    element_bytes: usize,
    len_bytes: u64,
}

impl Slice {
    /// Checks `picks`, which must contain one entry for each dimension of `tensor`.
    pub fn new(tensor: &model::TensorInfo, mut picks: Vec<Pick>) -> PyResult<Self> {
        let mut shape = tensor.shape.clone();
        if picks.len() != shape.len() {
            return Err(PyIndexError::new_err(
                "a pick for every dimension is needed",
            ));
        }
        for (pick, len) in picks.iter().zip(&shape) {
            let fits = pick.count == 0 || pick.bounds().is_some_and(|(_, end)| end <= *len);
            if !fits {
                return Err(PyIndexError::new_err("an index beyond the end"));
            }
        }
        let element_bytes = match tensor.dtype.len_bytes() {
            Some(bytes) => bytes,
            None => bytes_of_packed(tensor, &mut shape, &mut picks)?,
        };
        let count: u64 = picks.iter().map(|pick| pick.count).product();
        Ok(Self {
            name: tensor.name.clone(),
            len_bytes: count * element_bytes as u64,
            shape,
            picks,
            element_bytes,
        })
    }

    /// Reads the slice; of the first dimension, only the rows between its bounds are
    /// read.
    pub fn read(&self, reader: &zstn::Reader) -> Result<Aligned> {
        let mut out = Aligned::zeroed(self.len_bytes)?;
        if self.len_bytes == 0 {
            return Ok(out);
        }
        let Some(((first, end), rows)) = self
            .picks
            .first()
            .and_then(Pick::bounds)
            .zip(self.shape.first())
        else {
            reader.read_into(&self.name, out.as_mut_slice())?;
            return Ok(out);
        };
        let (mut shape, mut picks) = (self.shape.clone(), self.picks.clone());
        let out_of = |from: &[u8], shape: &[u64], picks: &[Pick], out: &mut Aligned| {
            gather(from, shape, picks, self.element_bytes, out.as_mut_slice());
        };
        if (first, end) == (0, *rows) {
            let mut whole = Aligned::zeroed(reader.find(&self.name)?.len_bytes())?;
            reader.read_into(&self.name, whole.as_mut_slice())?;
            if whole.as_mut_slice().len() as u64 == self.len_bytes
                && self.picks.iter().all(|pick| pick.step == 1)
            {
                return Ok(whole);
            }
            out_of(whole.as_mut_slice(), &shape, &picks, &mut out);
            return Ok(out);
        }
        let read = reader.read_rows(&self.name, first..end)?;
        shape[0] = end - first;
        picks[0].start -= i64::try_from(first).unwrap_or(0);
        out_of(&read.bytes, &shape, &picks, &mut out);
        Ok(out)
    }
}

/// Converts a slice of elements shorter than a byte to a slice of bytes: the last
/// dimension is then counted in bytes. Returns the element length of 1 byte.
fn bytes_of_packed(
    tensor: &model::TensorInfo,
    shape: &mut [u64],
    picks: &mut [Pick],
) -> PyResult<usize> {
    let (Some(len), Some(pick)) = (shape.last_mut(), picks.last_mut()) else {
        return Err(PyValueError::new_err("a single element below one byte"));
    };
    let bits = tensor.dtype.bits();
    let is_all = pick.start == 0 && pick.step == 1 && pick.count == *len;
    if !is_all || !(*len * bits).is_multiple_of(8) {
        return Err(PyIndexError::new_err(format!(
            "elements of {} are parts of bytes: the last dimension can be taken as a whole only",
            tensor.dtype
        )));
    }
    *len = *len * bits / 8;
    pick.count = *len;
    Ok(1)
}
