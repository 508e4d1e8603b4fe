//! Operators whose outputs are known when a model is translated.

use opkeep_ops::Constant;
use opkeep_text::counted;

use crate::fold::LIMIT;
use crate::node::{Mapped, Node};
use crate::number::Numbers;
use crate::tensor;
use crate::value::{Value, count, product};
use crate::wire::proto::attribute_type;

/// The value is in one of several attributes.
pub(crate) fn constant(node: &mut Node<'_>) -> Mapped {
    let [attribute] = node.proto.attribute.as_slice() else {
        return Err(format!("it has {}, expected one", counted(node.proto.attribute.len(), "value")));
    };
    let name = attribute.name.clone();
    let value = match name.as_str() {
        "value" => tensor_attribute(node, &name)?.ok_or("it has no value")?,
        "value_int" => {
            let int = node.int(&name, 0)?;
            node.int_constant("int64", &[], vec![int])?
        }
        "value_ints" => {
            let ints = node.ints(&name)?.unwrap_or_default();
            node.int_constant("int64", &[ints.len() as i64], ints)?
        }
        "value_float" => {
            let float = node.float(&name, 0.0)?;
            node.fill("float32", &[], f64::from(float))?
        }
        "value_floats" => {
            let floats = node.floats(&name)?.unwrap_or_default();
            let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
            node.constant("float32", &[floats.len() as i64], Constant::of_bytes(bytes))?
        }
        "sparse_value" => return Err("its value is a sparse tensor".to_owned()),
        _ => return Err("its value is text".to_owned()),
    };
    Ok(vec![value])
}

/// A tensor in an attribute.
fn tensor_attribute(node: &mut Node<'_>, name: &str) -> Result<Option<Value>, String> {
    let base = node.base;
    let attr = node.attr(name, attribute_type::TENSOR, "a tensor")?;
    let Some(proto) = attr.and_then(|attr| attr.t.as_ref()) else { return Ok(None) };
    let data = tensor::read(proto, base).map_err(|error| error.to_string())?;
    node.constant(data.dtype, &data.shape, data.constant).map(Some)
}

/// A uniform value of a known shape stays uniform.
pub(crate) fn constant_of_shape(node: &mut Node<'_>) -> Mapped {
    let shape = node.required(0, "shape")?;
    let Some(value) = tensor_attribute(node, "value")? else {
        return Ok(vec![node.fill("float32", &shape, 0.0)?]);
    };
    if product(&value.shape) != 1 {
        return Err(format!("its value has shape {:?}, expected one element", value.shape));
    }
    let element = crate::fold::elements(node.graph, value.id)?.ok_or("its value is not known")?;
    let dtype = node.dtype(value.id).to_owned();
    Ok(vec![node.constant(&dtype, &shape, Constant::Fill(element))?])
}

/// A part of the input's shape, all of it before version 15.
pub(crate) fn shape(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let rank = x.rank() as i64;
    let bound = |given: i64| if given < 0 { given.saturating_add(rank) } else { given }.clamp(0, rank);
    let (start, end) = (bound(node.int("start", 0)?), bound(node.int("end", rank)?));
    let part = x.shape.get(start as usize..end as usize).unwrap_or_default().to_vec();
    Ok(vec![node.int_constant("int64", &[part.len() as i64], part)?])
}

pub(crate) fn size(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    Ok(vec![node.int_constant("int64", &[], vec![product(&x.shape)])?])
}

/// The numbers from a start in steps, up to a limit that is not included.
pub(crate) fn range(node: &mut Node<'_>) -> Mapped {
    let mut numbers = Vec::new();
    for (at, role) in ["start", "limit", "delta"].into_iter().enumerate() {
        let value = node.input(at)?;
        numbers.push(
            node.numbers(value.id)?
                .filter(|_| product(&value.shape) == 1)
                .ok_or_else(|| format!("its {role} must be one known number"))?,
        );
    }
    let dtype = node.dtype(node.input(0)?.id).to_owned();
    let too_many = || format!("it has more than {LIMIT} elements, the most that are computed beforehand");
    let (elements, count) = match numbers.as_slice() {
        [Numbers::Ints(start), Numbers::Ints(limit), Numbers::Ints(delta)] => {
            let (start, limit, delta) = (start[0], limit[0], delta[0]);
            let span = i128::from(limit) - i128::from(start);
            let count = steps(span, i128::from(delta)).ok_or("its delta is 0")?;
            let count = i64::try_from(count).ok().filter(|count| count.unsigned_abs() <= LIMIT);
            let count = count.ok_or_else(too_many)?;
            let element = |at: i64| start.wrapping_add(at.wrapping_mul(delta));
            (Numbers::Ints((0..count).map(element).collect()), count)
        }
        [Numbers::Floats(start), Numbers::Floats(limit), Numbers::Floats(delta)] => {
            let (start, limit, delta) = (start[0], limit[0], delta[0]);
            let count = ((limit - start) / delta).ceil();
            // The number of steps of size zero is infinite or NaN.
            if count.is_nan() || count > LIMIT as f64 {
                return Err(too_many());
            }
            // A negative number becomes 0.
            let count = count as u32;
            let element = |at: u32| start + f64::from(at) * delta;
            (Numbers::Floats((0..count).map(element).collect()), i64::from(count))
        }
        _ => return Err("its start, limit and delta differ in type".to_owned()),
    };
    let bytes = elements.encode(&dtype).ok_or_else(|| format!("a range of {dtype} is not computed"))?;
    Ok(vec![node.computed(&dtype, &[count], bytes)?])
}

/// The number of steps of `delta` that begin within `span`; `None` if `delta` is 0.
fn steps(span: i128, delta: i128) -> Option<i128> {
    match delta {
        0 => None,
        delta => Some(((span + delta - delta.signum()) / delta).max(0)),
    }
}

/// The indices of the elements that are not zero, one column for each, if they are known.
pub(crate) fn non_zero(node: &mut Node<'_>) -> Mapped {
    let x = node.input(0)?;
    let numbers =
        node.numbers(x.id)?.ok_or("how many elements are not zero is known only when the network runs")?;
    let is_set: Vec<bool> = match numbers {
        Numbers::Ints(ints) => ints.iter().map(|int| *int != 0).collect(),
        Numbers::Floats(floats) => floats.iter().map(|float| *float != 0.0).collect(),
    };
    let places: Vec<i64> = (0i64..).zip(is_set).filter_map(|(at, is_set)| is_set.then_some(at)).collect();
    let mut rows = Vec::new();
    for at in 0..x.rank() {
        let inner = product(&x.shape[at + 1..]);
        rows.extend(places.iter().map(|place| place / inner % x.shape[at]));
    }
    let shape = [x.rank() as i64, places.len() as i64];
    count(&shape).ok_or("it has too many places")?;
    Ok(vec![node.int_constant("int64", &shape, rows)?])
}
