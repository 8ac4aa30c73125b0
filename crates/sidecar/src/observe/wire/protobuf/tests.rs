use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A message with these fields.
pub(crate) fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, value) in fields {
        varint(u64::from(*number) << 3 | 2, &mut bytes);
        varint(value.len() as u64, &mut bytes);
        bytes.extend_from_slice(value);
    }
    bytes
}

/// A field that is a number.
pub(crate) fn number(field: u8, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(u64::from(field) << 3, &mut bytes);
    varint(value, &mut bytes);
    bytes
}

/// The envelope around an object.
pub(crate) fn envelope(message_: &[u8]) -> Vec<u8> {
    let type_meta = message(&[(1, b"v1"), (2, b"Pod")]);
    [
        MAGIC,
        &message(&[(1, &type_meta), (2, message_), (3, b""), (4, b"")]),
    ]
    .concat()
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}

#[test]
fn reads_each_type_of_field_and_refuses_what_is_cut_short() {
    let mut bytes = message(&[(16, b"text")]);
    bytes.extend(number(2, u64::MAX));
    bytes.extend([3 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 4 << 3 | 5, 1, 2, 3, 4]);
    let fields: Result<Vec<_>, _> = Fields(&bytes).collect();
    let expected = [
        (16, Value::Bytes(b"text")),
        (2, Value::Number(u64::MAX)),
        (3, Value::Fixed),
        (4, Value::Fixed),
    ];
    assert_eq!(fields.unwrap(), expected);
    let whole = [0, 7, 18, 27]
        .into_iter()
        .chain([bytes.len()])
        .collect::<Vec<_>>();
    for length in 0..=bytes.len() {
        let is_whole = Fields(&bytes[..length]).all(|field| field.is_ok());
        assert_eq!(is_whole, whole.contains(&length), "{length}");
    }
    for damaged in [
        &[0xff; 11][..],
        &[1 << 3 | 3],
        &[
            1 << 3 | 2,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            1,
        ],
    ] {
        assert!(Fields(damaged).any(|field| field.is_err()), "{damaged:?}");
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Sample {
    text: Option<String>,
    number: Option<i32>,
    flag: Option<bool>,
    time: Option<String>,
    size: Option<usize>,
    limited: Option<BTreeMap<String, String>>,
    list: Vec<String>,
    map: BTreeMap<String, String>,
}

const SAMPLE: Schema = &[
    (1, "text", Kind::Text),
    (2, "number", Kind::Number),
    (3, "flag", Kind::Flag),
    (4, "time", Kind::Time),
    (5, "limited", Kind::Limited(3, &[(1, "a", Kind::Text)])),
    (5, "size", Kind::Size(&[])),
    (6, "list", Kind::List(&Kind::Text)),
    (7, "map", Kind::Map),
];

#[test]
fn reads_a_message_as_json_would_show_it() {
    let entry = |key: &[u8], value: &[u8]| message(&[(1, key), (2, value)]);
    let mut bytes = message(&[
        (1, b"10.0.\xf0\x9f\xc0"),
        (4, &number(1, 0)),
        (5, &message(&[(1, b"x")])),
        (6, b"one"),
        (7, &entry(b"a", b"1")),
        (6, b""),
        (7, &entry(b"b", b"")),
        (9, b"not looked into"),
    ]);
    bytes.extend(number(2, u64::MAX));
    bytes.extend(number(3, 1));
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let expected = Sample {
        text: Some("10.0.\u{fffd}\u{fffd}\u{fffd}".into()),
        number: Some(-1),
        flag: Some(true),
        time: Some("1970-01-01T00:00:00Z".into()),
        size: Some(3),
        limited: Some(map(&[("a", "x")])),
        list: vec!["one".into(), String::new()],
        map: map(&[("a", "1"), ("b", "")]),
    };
    assert_eq!(read::<Sample>(&bytes, SAMPLE), Ok(expected));
    let left_out = message(&[(1, b""), (4, b""), (5, b"xxxx")]);
    assert_eq!(
        read(&left_out, SAMPLE),
        Ok(Sample {
            size: Some(4),
            ..Sample::default()
        })
    );
    let many = b"\x32\0".repeat(MAX_ITEMS + 1);
    for wrong in [
        number(1, 5),
        message(&[(2, b"x")]),
        number(2, 1 << 40),
        number(6, 1),
        vec![0xff],
        many,
    ] {
        assert_eq!(
            read::<Sample>(&wrong, SAMPLE),
            Err(damaged()),
            "{:?}",
            &wrong[..wrong.len().min(9)]
        );
    }
}

#[test]
fn opens_only_the_envelope_of_a_message() {
    assert_eq!(open(&envelope(b"\x0a\x00")), Ok(&b"\x0a\x00"[..]));
    assert_eq!(open(MAGIC), Ok(&[][..]), "an object without a field");
    let json = [MAGIC, &message(&[(2, b"{}"), (4, b"application/json")])].concat();
    for other in [
        &json[..],
        b"",
        b"k8s",
        b"{\"kind\": \"Pod\"}",
        b"k8s\0\x12\x05x",
    ] {
        assert!(open(other).is_err(), "{other:?}");
    }
}

proptest! {
    #[test]
    fn reads_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Fields(&bytes).count();
        let _ = open(&[MAGIC, &bytes].concat());
        let _ = read::<Sample>(&bytes, SAMPLE);
    }
}
