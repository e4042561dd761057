//! The lists of a plan and of its jobs, as they are copied to a GPU.

use zerocopy::IntoBytes as _;
use zstn_core::frame::plan::{
    DevicePlan, JoinedTensor, PlannedDifference, PlannedDigest, PlannedPlane, Space,
};

use crate::cuda::Memory;
use crate::{Jobs, Output, Result};

/// The alignment of lists in device memory.
const LIST_ALIGN: usize = 16;

/// Returns the address of `len_bytes` bytes at the offset `at` of a plan's output.
pub(super) fn address_of(outputs: &[Output<'_, Memory>], at: u64, len_bytes: u64) -> Result<u64> {
    let (memory, at) = Output::find(outputs, at, len_bytes)?;
    memory.at(at, len_bytes)
}

/// The lists that contain places in the output of a plan, with addresses in their place.
pub(super) struct Addressed {
    pub tensors: Vec<JoinedTensor>,
    pub planes: Vec<PlannedPlane>,
    pub differences: Vec<PlannedDifference>,
    pub digests: Vec<PlannedDigest>,
}

impl Addressed {
    /// Returns the lists of [`DevicePlan::list_bytes`], with addresses.
    pub fn list_bytes<'p>(&'p self, plan: &'p DevicePlan) -> [&'p [u8]; 12] {
        let [
            _tensors,
            _planes,
            segments,
            huffman_tables,
            rans_tables,
            lattices,
            lattice_groups,
            _differences,
            codes,
            tables,
            blocks,
            _digests,
        ] = plan.list_bytes();
        [
            self.tensors.as_bytes(),
            self.planes.as_bytes(),
            segments,
            huffman_tables,
            rans_tables,
            lattices,
            lattice_groups,
            self.differences.as_bytes(),
            codes,
            tables,
            blocks,
            self.digests.as_bytes(),
        ]
    }
}

/// Replaces places in the output of a plan by addresses, also in `jobs`.
pub(super) fn at_addresses(
    plan: &DevicePlan,
    jobs: &mut Jobs,
    outputs: &[Output<'_, Memory>],
) -> Result<Addressed> {
    let mut tensors = plan.tensors().to_vec();
    for tensor in tensors.iter_mut().filter(|tensor| tensor.elements > 0) {
        let len_bytes = tensor.elements.saturating_mul(tensor.item_bytes.into());
        tensor.output = address_of(outputs, tensor.output, len_bytes)?;
    }
    let mut planes = jobs.planes.clone();
    for plane in &mut planes {
        if plane.space == Space::Output as u32 && plane.len > 0 {
            plane.at = address_of(outputs, plane.at, plane.len)?;
        }
    }
    let mut differences = plan.differences().to_vec();
    for tensor in &mut differences {
        let len_bytes = tensor.elements.saturating_mul(tensor.item_bytes.into());
        tensor.output = address_of(outputs, tensor.output, len_bytes)?;
    }
    let mut digests = plan.digests().to_vec();
    for digest in digests.iter_mut().filter(|digest| digest.len > 0) {
        digest.output = address_of(outputs, digest.output, digest.len)?;
    }
    for tile in &mut jobs.xors {
        tile.output = address_of(outputs, tile.output, tile.len.into())?;
    }
    Ok(Addressed {
        tensors,
        planes,
        differences,
        digests,
    })
}

/// Appends lists to `bytes`. Returns where each of them begins.
pub(super) fn append<const N: usize>(bytes: &mut Vec<u8>, lists: [&[u8]; N]) -> [u64; N] {
    lists.map(|list| {
        let start = bytes.len() as u64;
        bytes.extend_from_slice(list);
        bytes.resize(bytes.len().next_multiple_of(LIST_ALIGN), 0);
        start
    })
}
