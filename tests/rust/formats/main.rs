//! Files of every format: golden vectors, files written by this project, and files that
//! break a rule.

mod compressed_tensors;
mod delta;
mod delta_tensors;
mod extension_frames;
mod gauss;
mod gguf;
mod hdf5;
mod incremental;
mod integrity;
mod member_files;
mod msgpack;
mod npy;
mod onnx;
mod paired_deltas;
mod rules;
mod safetensors_headers;
mod sketch;
mod statistics;
mod tflite;
mod vectors;
mod zip_files;
mod ztensor;
mod ztensor2;
