//! The declared inputs and outputs of a model.

use std::collections::{BTreeSet, HashMap};

use crate::dtype;
use crate::model::network::{Options, ValueInfo};
use crate::model_error::{ModelError, OpenDim};
use crate::wire::proto::{DimensionProto, TensorTypeProto, ValueInfoProto};

/// Sizes for dimensions without a size in the model.
pub(crate) struct Sizes<'o> {
    options: &'o Options,
    /// The dimensions that still need a size.
    open: Vec<OpenDim>,
    /// The index of each of them in that list.
    places: HashMap<String, usize>,
    /// The names of all dimensions without a size in the model.
    names: BTreeSet<String>,
}

impl<'o> Sizes<'o> {
    pub(crate) fn new(options: &'o Options) -> Self {
        Self { options, open: Vec::new(), places: HashMap::new(), names: BTreeSet::new() }
    }

    /// An input by its declaration. Dimensions without a size are 0 here: [`check`](Self::check) reports them.
    pub(crate) fn input(&mut self, info: &ValueInfoProto) -> Result<ValueInfo, ModelError> {
        let problem = |problem: String| ModelError::Input { input: info.name.clone(), problem };
        let tensor =
            tensor_type(info).ok_or_else(|| problem("is not a tensor, or its type is not given".into()))?;
        let dtype = dtype::of_onnx(tensor.elem_type).ok_or_else(|| {
            problem(format!("is of {}, which is no type here", dtype::shown(tensor.elem_type)))
        })?;
        let shape = tensor.shape.as_ref().ok_or_else(|| {
            problem("has no shape, not even a number of dimensions; export the model with shapes".into())
        })?;
        let dims = shape.dim.iter().enumerate();
        let shape = dims.map(|(axis, dim)| self.size(&info.name, axis, dim)).collect::<Result<_, _>>()?;
        Ok(ValueInfo { name: info.name.clone(), dtype: dtype.to_owned(), shape })
    }

    fn size(&mut self, input: &str, axis: usize, dim: &DimensionProto) -> Result<i64, ModelError> {
        if let Some(size) = fixed(dim) {
            return Ok(size);
        }
        let place = format!("{input}:{axis}");
        let name = dim.dim_param.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| place.clone());
        let given = [&place, &name].into_iter().find_map(|key| self.options.dims.get_key_value(key));
        self.names.extend([place, name.clone()]);
        match given {
            Some((_, size)) if *size >= 0 => Ok(*size),
            Some((name, size)) => Err(ModelError::DimSize { name: name.clone(), size: *size }),
            None => {
                let at = *self.places.entry(name.clone()).or_insert(self.open.len());
                if at == self.open.len() {
                    self.open.push(OpenDim { name, places: Vec::new() });
                }
                self.open[at].places.push((input.to_owned(), axis));
                Ok(0)
            }
        }
    }

    /// Checks that every dimension has a size, and that every given size belongs to a dimension.
    pub(crate) fn check(self) -> Result<(), ModelError> {
        if let Some(name) = self.options.dims.keys().find(|name| !self.names.contains(*name)) {
            let known = self.names.into_iter().collect();
            return Err(ModelError::NoSuchDim { name: name.clone(), known });
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => Err(ModelError::Dims { dims: self.open }),
        }
    }
}

/// Checks the declaration of an output against the computed output. A dimension without a size agrees with any.
pub(crate) fn check_output(declared: &ValueInfoProto, computed: &ValueInfo) -> Result<(), ModelError> {
    let Some(tensor) = tensor_type(declared) else { return Ok(()) };
    let declared_dtype = dtype::of_onnx(tensor.elem_type);
    let same_dtype = tensor.elem_type == 0 || declared_dtype == Some(computed.dtype.as_str());
    let shape: Option<Vec<Option<i64>>> =
        tensor.shape.as_ref().map(|shape| shape.dim.iter().map(fixed).collect());
    let same_shape = shape.as_ref().is_none_or(|shape| {
        let mut dims = shape.iter().zip(&computed.shape);
        shape.len() == computed.shape.len() && dims.all(|(dim, found)| dim.is_none_or(|dim| dim == *found))
    });
    if same_dtype && same_shape {
        return Ok(());
    }
    let dim = |dim: &Option<i64>| dim.map_or("?".to_owned(), |dim| dim.to_string());
    let shape = shape.map(|shape| shape.iter().map(dim).collect::<Vec<_>>().join(", "));
    Err(ModelError::Contradiction {
        name: computed.name.clone(),
        declared: format!("{} [{}]", dtype::shown(tensor.elem_type), shape.unwrap_or_default()),
        computed: format!("{} {:?}", computed.dtype, computed.shape),
    })
}

pub(crate) fn tensor_type(info: &ValueInfoProto) -> Option<&TensorTypeProto> {
    info.r#type.as_ref()?.tensor_type.as_ref()
}

/// A dimension's size in the model.
pub(crate) fn fixed(dim: &DimensionProto) -> Option<i64> {
    dim.dim_value.filter(|size| *size >= 0)
}
