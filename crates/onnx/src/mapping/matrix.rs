//! Matrix products.

use opkeep_ops::{TensorId, bool_attr, float_attr};

use crate::node::{Mapped, Node};
use crate::value::Value;

/// A vector on the left is a row, a vector on the right a column; the result lacks the added dimension.
pub(crate) fn mat_mul(node: &mut Node<'_>) -> Mapped {
    let y = batched(node, false, false, None)?;
    Ok(vec![y])
}

/// `com.microsoft.FusedMatMul`: operands may be transposed, and the result is multiplied by a number.
pub(crate) fn fused_mat_mul(node: &mut Node<'_>) -> Mapped {
    for name in ["transBatchA", "transBatchB"] {
        if node.flag(name, false)? {
            return Err(format!("attribute `{name}` is set"));
        }
    }
    let (left, right) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let alpha = node.float("alpha", 1.0)?;
    if alpha == 1.0 {
        return Ok(vec![batched(node, left, right, None)?]);
    }
    let product = batched(node, left, right, Some("product"))?;
    let y = node.emit("Muls", &[product.id], [float_attr("value", alpha)])?;
    Ok(vec![node.value(y, product.shape)?])
}

fn batched(
    node: &mut Node<'_>,
    turn_left: bool,
    turn_right: bool,
    step: Option<&str>,
) -> Result<Value, String> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    if a.rank() == 0 || b.rank() == 0 {
        return Err(format!("a product of {:?} and {:?}, expected vectors or matrices", a.shape, b.shape));
    }
    // A vector cannot be transposed.
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let left = if row { node.view(&a, &[1, a.shape[0]])? } else { a.id };
    let right = if column { node.view(&b, &[b.shape[0], 1])? } else { b.id };
    let attrs = [bool_attr("adj_x1", turn_left && !row), bool_attr("adj_x2", turn_right && !column)];
    let y = match step {
        Some(step) => node.add_step(step, "BatchMatMulV2", &[left, right], attrs)?,
        None => node.emit("BatchMatMulV2", &[left, right], attrs)?,
    };
    let mut shape = node.graph.tensor(y).shape.clone();
    if column {
        shape.pop();
    }
    if row {
        shape.remove(shape.len() - if column { 1 } else { 2 });
    }
    node.value(y, shape)
}

/// `alpha * A * B + beta * C`.
pub(crate) fn gemm(node: &mut Node<'_>) -> Mapped {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    let attrs = [
        bool_attr("transpose_x1", node.flag("transA", false)?),
        bool_attr("transpose_x2", node.flag("transB", false)?),
    ];
    // A term that is multiplied by zero is left out.
    let c = node.optional(2).filter(|_| beta != 0.0);
    // The last of the operators gets the node's name.
    let mut steps = 1 + usize::from(alpha != 1.0) + usize::from(c.is_some());
    let mut step = |node: &mut Node<'_>, name: &str, op_type: &str, inputs: &[TensorId], attrs: &[_]| {
        steps -= 1;
        if steps == 0 {
            node.emit(op_type, inputs, attrs)
        } else {
            node.add_step(name, op_type, inputs, attrs)
        }
    };
    let mut y = step(node, "product", "MatMulV2", &[a.id, b.id], &attrs)?;
    let shape = node.graph.tensor(y).shape.clone();
    if alpha != 1.0 {
        y = step(node, "alpha", "Muls", &[y], &[float_attr("value", alpha)])?;
    }
    if let Some(c) = c {
        if opkeep_ops::broadcast(&c.shape, &shape).as_deref() != Some(shape.as_slice()) {
            return Err(format!(
                "C has shape {:?}, which does not fit a product of shape {shape:?}",
                c.shape
            ));
        }
        let scaled = match beta {
            1.0 => c.id,
            beta => node.add_step("beta", "Muls", &[c.id], [float_attr("value", beta)])?,
        };
        y = step(node, "sum", "Add", &[y, scaled], &[])?;
    }
    Ok(vec![node.value(y, shape)?])
}
