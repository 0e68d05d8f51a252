//! Output of another implementation's encoder, with Duplicate, post-Base indices, and a Required
//! Insert Count that wraps.

use super::*;

#[test]
fn sections_of_ls_qpack_are_decoded() {
    let mut decoder = Decoder::new(DecoderConfig {
        max_table_capacity: 256,
        max_blocked_streams: 2,
        max_section_size: 1000,
    });
    let mut decoded = BTreeMap::new();
    let mut expected: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    let (mut stream_id, mut blocked) = (0, 0);
    for line in include_str!("ls-qpack.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        if let Some(instructions) = line.strip_prefix("instructions ") {
            assert_eq!(
                decoder.on_encoder_stream(&hex(instructions)),
                Ok(()),
                "{line}"
            );
            while let Some((stream_id, fields)) = decoder.poll_unblocked() {
                decoded.insert(stream_id, fields);
            }
        } else if let Some(section) = line.strip_prefix("section ") {
            let (stream, section) = section.split_once(' ').unwrap();
            stream_id = stream.parse().unwrap();
            expected.insert(stream_id, Vec::new());
            match decoder.decode(stream_id, hex(section).into()) {
                Ok(Decoded::Blocked) => blocked += 1,
                fields => {
                    decoded.insert(stream_id, fields);
                }
            }
        } else {
            let (name, value) = line.rsplit_once(": ").unwrap();
            let (name, value) = (Bytes::from(name), Bytes::from(value));
            let field = Field {
                name,
                value,
                never_indexed: false,
            };
            expected.entry(stream_id).or_default().push(field);
        }
    }
    assert_eq!(blocked, 4, "sections that arrive before their insertions");
    let expected = expected
        .into_iter()
        .map(|(id, fields)| (id, Ok(Decoded::Fields(fields.into_iter().collect()))));
    assert_eq!(decoded, expected.collect());
}
