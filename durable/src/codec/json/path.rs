//! Where in a value something is: `report.scores[3]`.
//!
//! Built only once something is wrong: while an error travels up through the serializer, or by a scan of the text up
//! to the place a reader stopped at. Layer: below the stores.

use std::fmt;

/// One step into a value.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    /// A field, a map key, or the name of an enum's variant.
    Key(String),
    /// A place in an array, from 0.
    Index(usize),
}

/// Steps from the root to a value; an error that travels outwards appends, so that the last step comes first.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    inside_out: Vec<Segment>,
}

/// More steps than this are cut in the middle: the path of what is too deep would fill a screen.
const SHOWN: usize = 16;

impl Path {
    /// Puts a step before the path so far.
    pub(super) fn prepend(&mut self, segment: Segment) {
        self.inside_out.push(segment);
    }

    /// True for the root itself.
    pub(super) fn is_empty(&self) -> bool {
        self.inside_out.is_empty()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.inside_out.len();
        let cut = if steps > SHOWN { SHOWN / 2..steps - SHOWN / 2 } else { 0..0 };
        for (position, segment) in self.inside_out.iter().rev().enumerate() {
            if cut.contains(&position) {
                if position == cut.start {
                    f.write_str("…")?;
                }
                continue;
            }
            match segment {
                Segment::Key(key) if position == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// The path of the value that surrounds a place in a JSON text, as far as the text goes there. Line and column count
/// from 1, in bytes, as `serde_json` gives them.
pub(super) fn at(text: &str, line: usize, column: usize) -> Path {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let end = (start + column).min(text.len());
    let mut open: Vec<Segment> = Vec::new();
    let mut bytes = text.as_bytes()[..end].iter().enumerate();
    let mut word = 0..0;
    while let Some((position, byte)) = bytes.next() {
        match byte {
            b'"' => {
                // A string: the last one before a colon is a key.
                word = position + 1..end;
                while let Some((position, byte)) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => {
                            word.end = position;
                            break;
                        }
                        _ => {}
                    }
                }
            }
            b':' => {
                if let (Some(last), Some(key)) = (open.last_mut(), text.get(word.clone())) {
                    *last = Segment::Key(key.to_owned());
                }
            }
            b'{' => open.push(Segment::Key(String::new())),
            b'[' => open.push(Segment::Index(0)),
            // A reader notices a missing field at the closing bracket, which then belongs to the value it closes.
            b'}' | b']' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(Segment::Index(index)) => *index += 1,
                Some(Segment::Key(key)) => key.clear(),
                None => {}
            },
            _ => {}
        }
    }
    // An object in which no key has been read yet adds nothing to the path.
    open.retain(|segment| !matches!(segment, Segment::Key(key) if key.is_empty()));
    open.reverse();
    Path { inside_out: open }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn path_before(text: &str, marker: char) -> String {
        let column = text.find(marker).unwrap();
        at(text, 1, column).to_string()
    }

    #[test]
    fn a_place_in_a_text_has_a_path() {
        assert_eq!(path_before(r#"{"a":1,"b":{"c":[0,{"d":[]},^"#, '^'), "b.c[2]");
        assert_eq!(path_before(r#"[[1,2],[3,^"#, '^'), "[1][1]");
        assert_eq!(path_before(r#"{"a\"]":"}",^"#, '^'), "");
        assert_eq!(path_before(r#"{"a{":"}","k":^"#, '^'), "k");
        assert_eq!(at("{\n\"a\":\n[1,", 3, 3).to_string(), "a[1]");
        assert_eq!(at("", 7, 7).to_string(), "");
    }

    #[test]
    fn a_long_path_is_cut_in_the_middle() {
        let text = "[".repeat(100);
        let path = at(&text, 1, 100).to_string();
        assert_eq!(path.matches("[0]").count(), SHOWN, "{path}");
        assert_eq!(path.matches('…').count(), 1, "{path}");
    }
}
