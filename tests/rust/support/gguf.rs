//! Writes GGUF files of version 3 (docs/formats/gguf.md 1 to 3).

/// A tensor: name, number of its type, sizes with the fastest first, and bytes.
pub type GgufTensor<'a> = (&'a str, u32, &'a [u64], Vec<u8>);

/// A value of metadata.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// An unsigned number of 16 bits.
    U16(u16),
    /// A number of 32 bits.
    I32(i32),
}

/// The number of the type F32.
pub const F32: u32 = 0;

/// Returns a file with these metadata and tensors.
///
/// # Panics
/// If a tensor has more dimensions than 32 bits can count.
#[must_use]
pub fn file(metadata: &[(&str, Value)], tensors: &[GgufTensor]) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        string(&mut file, key);
        match value {
            Value::U16(number) => {
                file.extend(2u32.to_le_bytes());
                file.extend(number.to_le_bytes());
            }
            Value::I32(number) => {
                file.extend(5u32.to_le_bytes());
                file.extend(number.to_le_bytes());
            }
            Value::Text(text) => {
                file.extend(8u32.to_le_bytes());
                string(&mut file, text);
            }
        }
    }
    let mut offset = 0u64;
    for (name, number, sizes, bytes) in tensors {
        string(&mut file, name);
        file.extend(u32::try_from(sizes.len()).expect("few").to_le_bytes());
        sizes
            .iter()
            .for_each(|size| file.extend(size.to_le_bytes()));
        file.extend(number.to_le_bytes());
        file.extend(offset.to_le_bytes());
        offset = (offset + bytes.len() as u64).next_multiple_of(32);
    }
    for (_, _, _, bytes) in tensors {
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(bytes);
    }
    file
}

/// Returns a file whose metadata state that it is file `number`, from 0, of `count` files
/// with `total` tensors, with the types that llama.cpp writes.
#[must_use]
pub fn part(number: u16, count: u16, total: i32, tensors: &[GgufTensor]) -> Vec<u8> {
    let metadata = [
        ("split.no", Value::U16(number)),
        ("split.count", Value::U16(count)),
        ("split.tensors.count", Value::I32(total)),
    ];
    file(&metadata, tensors)
}

/// Returns the three files of a model with the tensors `a` to `d`, with their names. Every
/// tensor has 2 rows of 3 numbers.
#[must_use]
pub fn three_parts() -> [(String, Vec<u8>); 3] {
    let tensor = |name: &'static str, first: u8| -> GgufTensor<'static> {
        let values = (0..6).map(|step| f32::from(first + step));
        (
            name,
            F32,
            &[3, 2],
            values.flat_map(f32::to_le_bytes).collect(),
        )
    };
    let tensors = [
        vec![tensor("a", 10)],
        vec![tensor("b", 20), tensor("c", 30)],
        vec![tensor("d", 40)],
    ];
    let mut number = 0;
    tensors.map(|tensors| {
        let bytes = part(number, 3, 4, &tensors);
        number += 1;
        (format!("m-{number:05}-of-00003.gguf"), bytes)
    })
}

fn string(file: &mut Vec<u8>, text: &str) {
    file.extend((text.len() as u64).to_le_bytes());
    file.extend(text.as_bytes());
}
