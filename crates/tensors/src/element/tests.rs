use super::*;

#[test]
fn distances_distinguish_numbers_from_nan() {
    let float = Element::Float64;
    assert_eq!(float(1.5).distance(float(1.0)), 0.5);
    assert_eq!(float(f64::NAN).distance(float(f64::NAN)), 0.0);
    assert_eq!(float(f64::NAN).distance(float(0.0)), f64::INFINITY);
    assert_eq!(float(f64::INFINITY).distance(float(f64::INFINITY)), 0.0);
    assert_eq!(float(f64::INFINITY).distance(float(f64::NEG_INFINITY)), f64::INFINITY);
    let int = |value: i64| Element::Int(value.into());
    assert_eq!(int(i64::MAX).distance(int(i64::MAX - 1)), 1.0);
    assert_eq!(Element::Bool(true).distance(Element::Bool(false)), 1.0);
}

#[test]
fn elements_round_trip() {
    for dtype in ["float32", "float64", "int8", "int64", "uint8", "uint64", "bool"] {
        let bytes: Vec<u8> = [0.0, 1.0].iter().flat_map(|v| bytes_of(dtype, *v).unwrap()).collect();
        let numbers: Vec<f64> = elements(dtype, &bytes).map(Element::number).collect();
        assert_eq!(numbers, [0.0, 1.0], "{dtype}");
        assert_eq!(size(dtype, &[2]).unwrap(), (2, bytes.len()));
    }
    assert_eq!(size("float32", &[i64::MAX, 4]), None);
    assert_eq!(size("float32", &[-1]), None);
}
