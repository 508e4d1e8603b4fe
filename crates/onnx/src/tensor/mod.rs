//! Tensors: their properties, checked against their elements.

pub(crate) mod dense;
pub(crate) mod external;
pub(crate) mod file;
pub(crate) mod npy;
mod npy_header;
pub(crate) mod payload;

use std::path::Path;
use std::sync::Arc;

use opkeep_ops::{Constant, Elements, MAX_ELEMENTS, dtype_bytes};
use prost::bytes::Bytes;

use crate::dtype;
use crate::error::{TensorError, TensorProblem, shortened};
use crate::tensor::payload::{Dense, Truth, Varints, total};
use crate::value::MAX_RANK;
use crate::wire::proto::{StringStringEntryProto, TensorProto};

/// A valid tensor.
#[derive(Debug)]
pub(crate) struct TensorData {
    /// Its element type, by its name in the operator table.
    pub(crate) dtype: &'static str,
    /// Its shape, without negative dimensions.
    pub(crate) shape: Vec<i64>,
    /// As many elements as the shape has. They are copied only on demand.
    pub(crate) constant: Constant,
    bytes: u64,
}

impl TensorData {
    /// The size of its elements in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Checks a tensor of the model in the file `base`; `None` if the model did not come from a file.
pub(crate) fn read(proto: &TensorProto, base: Option<&Path>) -> Result<TensorData, TensorError> {
    data(proto, base).map_err(|problem| TensorError { tensor: shortened(&proto.name), problem })
}

/// [`read`], without the tensor's name.
pub(crate) fn data(proto: &TensorProto, base: Option<&Path>) -> Result<TensorData, TensorProblem> {
    let layout = Layout::of(proto)?;
    let constant = match source(proto)? {
        _ if layout.count == 0 && is_external(proto) => Constant::of_bytes([]),
        None if layout.count == 0 => Constant::of_bytes([]),
        None => return Err(TensorProblem::NoData { expected: layout.count }),
        Some(Source::Raw(raw)) => layout.dense("raw_data", std::slice::from_ref(raw))?,
        Some(Source::Typed(field, chunks)) => layout.typed(field, chunks)?,
        Some(Source::External(entries)) => {
            lazy(external::elements(entries, layout.bytes(), layout.truth(), base)?)
        }
    };
    Ok(TensorData { dtype: layout.dtype, shape: proto.dims.clone(), constant, bytes: layout.bytes() })
}

/// The number of elements of a tensor of shape `dims`.
pub(crate) fn elements(dims: &[i64]) -> Result<u64, TensorProblem> {
    if dims.len() > MAX_RANK {
        return Err(TensorProblem::Rank { found: dims.len(), limit: MAX_RANK });
    }
    let mut all = 1_u64;
    let mut count = 1_u64;
    for (index, dim) in dims.iter().enumerate() {
        let dim = u64::try_from(*dim).map_err(|_| TensorProblem::NegativeDim { index, found: *dim })?;
        count = count.saturating_mul(dim);
        // Without zeros, since code that walks the dimensions also multiplies the others.
        all = all.saturating_mul(dim.max(1));
    }
    if all > MAX_ELEMENTS {
        return Err(TensorProblem::TooManyElements { dims: dims.to_vec(), limit: MAX_ELEMENTS });
    }
    Ok(count)
}

/// The properties of a tensor's elements.
struct Layout<'a> {
    dtype: &'static str,
    dims: &'a [i64],
    count: u64,
    /// Bytes of an element.
    width: usize,
}

impl<'a> Layout<'a> {
    fn of(proto: &'a TensorProto) -> Result<Self, TensorProblem> {
        let dtype = dtype::of_onnx(proto.data_type);
        let known = dtype.and_then(|dtype| Some((dtype, dtype_bytes(dtype)?)));
        let Some((dtype, width)) = known else {
            return Err(TensorProblem::DataType { found: dtype::shown(proto.data_type) });
        };
        Ok(Self { dtype, dims: &proto.dims, count: elements(&proto.dims)?, width })
    }

    /// The field for its elements if they are not in `raw_data`.
    fn field(&self) -> &'static str {
        match self.dtype {
            "float32" => "float_data",
            "float64" => "double_data",
            "int64" => "int64_data",
            "uint32" | "uint64" => "uint64_data",
            _ => "int32_data",
        }
    }

    fn bytes(&self) -> u64 {
        self.count * self.width as u64
    }

    fn truth(&self) -> Truth {
        Truth(self.dtype == "bool")
    }

    fn typed(&self, field: &'static str, chunks: &[Bytes]) -> Result<Constant, TensorProblem> {
        let (dtype, expected) = (self.dtype, self.field());
        if field != expected {
            return Err(TensorProblem::WrongField { dtype, expected, found: field });
        }
        if matches!(field, "float_data" | "double_data") {
            // Packed numbers of fixed size have the same form as in memory.
            return self.dense(field, chunks);
        }
        let numbers =
            Varints::new(chunks, self.width, self.truth()).ok_or(TensorProblem::Packed { field })?;
        self.expect(field, "values", self.count, numbers.count())?;
        Ok(lazy(numbers))
    }

    fn dense(&self, field: &'static str, chunks: &[Bytes]) -> Result<Constant, TensorProblem> {
        self.expect(field, "bytes", self.bytes(), total(chunks))?;
        Ok(lazy(Dense { chunks: chunks.to_vec(), truth: self.truth() }))
    }

    fn expect(
        &self,
        field: &'static str,
        unit: &'static str,
        expected: u64,
        found: u64,
    ) -> Result<(), TensorProblem> {
        if expected == found {
            return Ok(());
        }
        let dims = self.dims.to_vec();
        Err(TensorProblem::Size { field, dtype: self.dtype, dims, unit, expected, found })
    }
}

/// The location of elements.
enum Source<'a> {
    Raw(&'a Bytes),
    /// Packed, in a field for some element types.
    Typed(&'static str, &'a [Bytes]),
    External(&'a [StringStringEntryProto]),
}

/// The single location of the elements. `external_data` counts only if `data_location` states it: tools that move
/// elements back into the model leave the entries.
fn source(proto: &TensorProto) -> Result<Option<Source<'_>>, TensorProblem> {
    if !matches!(proto.data_location, 0 | 1) {
        return Err(TensorProblem::Location { found: proto.data_location });
    }
    let typed = [
        ("float_data", &proto.float_data),
        ("int32_data", &proto.int32_data),
        ("int64_data", &proto.int64_data),
        ("double_data", &proto.double_data),
        ("uint64_data", &proto.uint64_data),
    ];
    let typed = typed.into_iter().filter(|(_, chunks)| total(chunks) > 0);
    let external = is_external(proto).then_some(("external_data", Source::External(&proto.external_data)));
    let raw = (!proto.raw_data.is_empty()).then_some(("raw_data", Source::Raw(&proto.raw_data)));
    let typed = typed.map(|(field, chunks)| (field, Source::Typed(field, chunks)));
    let mut sources = typed.chain(raw).chain(external);
    match (sources.next(), sources.next()) {
        (Some((first, _)), Some((second, _))) => Err(TensorProblem::Mixed { first, second }),
        (source, _) => Ok(source.map(|(_, source)| source)),
    }
}

fn is_external(proto: &TensorProto) -> bool {
    proto.data_location == 1
}

fn lazy(elements: impl Elements + 'static) -> Constant {
    Constant::Elements(Arc::new(elements))
}
