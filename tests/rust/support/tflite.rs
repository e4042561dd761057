//! Writes TensorFlow Lite models.

/// Writes the tables of a model.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

/// A tensor to write: name, type, shape and values.
#[derive(Debug, Clone)]
pub struct Tensor<'a>(pub &'a str, pub u8, pub &'a [i32], pub Vec<u8>);

impl Writer {
    fn u32(&mut self, number: usize) {
        self.0
            .extend(u32::try_from(number).expect("small").to_le_bytes());
    }

    /// Writes the offset from `at` to the end of what has been written.
    fn point(&mut self, at: usize) {
        let offset = u32::try_from(self.0.len() - at).expect("small");
        self.0[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }

    /// Writes a table with fields of four bytes, and returns where these are. Slots without
    /// a field are `None`.
    fn table(&mut self, slots: &[Option<u32>]) -> Vec<usize> {
        let len = 4 + 2 * slots.len();
        let table = self.0.len() + len;
        self.0
            .extend(u16::try_from(len).expect("small").to_le_bytes());
        let fields = slots.iter().flatten().count();
        self.0
            .extend(u16::try_from(4 + 4 * fields).expect("small").to_le_bytes());
        let mut at = 4u16;
        for slot in slots {
            self.0.extend(slot.map_or(0, |_| at).to_le_bytes());
            at += 4 * u16::from(slot.is_some());
        }
        self.u32(len);
        slots
            .iter()
            .flatten()
            .for_each(|field| self.0.extend(field.to_le_bytes()));
        (0..fields).map(|number| table + 4 + 4 * number).collect()
    }

    fn vector(&mut self, bytes: &[u8], count: usize) {
        self.u32(count);
        self.0.extend(bytes);
    }

    /// Writes a vector of `count` offsets, and returns where these are.
    fn offsets(&mut self, count: usize) -> Vec<usize> {
        self.vector(&vec![0; 4 * count], count);
        (0..count).map(|n| self.0.len() - 4 * (count - n)).collect()
    }

    /// Returns a model of these tensors.
    #[must_use]
    pub fn model(tensors: &[Tensor]) -> Vec<u8> {
        Self::repeated(tensors, 1)
    }

    /// Returns a model whose list contains every tensor several times.
    #[must_use]
    pub fn repeated(tensors: &[Tensor], repeats: usize) -> Vec<u8> {
        let mut file = Self::default();
        file.u32(0);
        file.0.extend(b"TFL3");
        file.0.extend([0; 4]);
        // The root: version, no operators, graphs, description, buffers.
        let at = file.0.len() + 4 + 2 * 5;
        file.0[0..4].copy_from_slice(&u32::try_from(at).expect("small").to_le_bytes());
        let root = file.table(&[Some(3), None, Some(0), Some(0), Some(0)]);
        file.point(root[2]);
        file.vector(b"made by a test\0", 14);
        file.point(root[1]);
        let graph = file.offsets(1)[0];
        let to = file.0.len() + 6;
        file.pointing(graph, to);
        let graph = file.table(&[Some(0)]);
        file.point(graph[0]);
        let offsets = file.offsets(repeats * tensors.len());
        for (number, Tensor(name, kind, shape, _)) in tensors.iter().enumerate() {
            let to = file.0.len() + 4 + 2 * 4;
            for offset in offsets[number..].iter().step_by(tensors.len()) {
                file.pointing(*offset, to);
            }
            let buffer = u32::try_from(number + 1).expect("small");
            let fields = file.table(&[Some(0), Some((*kind).into()), Some(buffer), Some(0)]);
            file.point(fields[0]);
            let sizes: Vec<u8> = shape.iter().flat_map(|size| size.to_le_bytes()).collect();
            file.vector(&sizes, shape.len());
            file.point(fields[3]);
            file.vector(name.as_bytes(), name.len());
        }
        file.point(root[3]);
        let offsets = file.offsets(tensors.len() + 1);
        let to = file.0.len() + 4;
        file.pointing(offsets[0], to);
        file.table(&[]);
        let mut data = Vec::new();
        for offset in &offsets[1..] {
            let to = file.0.len() + 6;
            file.pointing(*offset, to);
            data.push(file.table(&[Some(0)])[0]);
        }
        for (at, Tensor(.., values)) in data.into_iter().zip(tensors) {
            file.point(at);
            file.vector(values, values.len());
        }
        file.0
    }

    fn pointing(&mut self, at: usize, to: usize) {
        let offset = u32::try_from(to - at).expect("small");
        self.0[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }
}
