//! Filters: which records a query means.
//!
//! JSON in, compiled once, then a pure test of a record. This release knows equality: a bare value
//! or `$eq`, several members of one object and `$and` all have to hold. Missing is null, and a
//! scalar against an array means that the array holds it.

use crate::object::Object;
use crate::order::same;
use crate::path::Path;
use crate::value::Value;

/// A compiled filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// All hold; none at all hold for every record.
    All(Vec<Node>),
    /// What stands at the path passes the test.
    Field(Path, Test),
}

/// A test of what stands at a path.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Equal(Value),
}

/// Why a filter does not compile, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// An operator that does not exist there.
    #[error(
        "unknown operator `{operator}` at {at}: accepted are {list}{hint}",
        at = place(path), list = accepted.join(", "), hint = escape(operator, accepted)
    )]
    UnknownOperator {
        /// The operator.
        operator: String,
        /// The path of the field, empty at the top.
        path: String,
        /// The operators accepted there.
        accepted: &'static [&'static str],
    },
    /// Another kind of value than the place asks for.
    #[error("the filter at {at} must be {expected}", at = place(path))]
    Invalid {
        /// The path of the field or operator, empty at the top.
        path: String,
        /// What was expected.
        expected: &'static str,
    },
    /// Larger than a filter may be.
    #[error("a filter may nest {DEPTH} levels and hold {NODES} conditions")]
    TooLarge,
}

fn place(path: &str) -> String {
    if path.is_empty() { String::from("the top") } else { format!("`{path}`") }
}

/// How to write what looks like an operator but is data.
fn escape(operator: &str, accepted: &[&str]) -> String {
    if accepted == LOGIC {
        format!("; a key that begins with `$` is written `/{operator}`")
    } else {
        String::from("; an object with such a key is written under `$eq`")
    }
}

/// Operators accepted between conditions.
const LOGIC: &[&str] = &["$and"];
/// Operators accepted on a field.
const TESTS: &[&str] = &["$eq"];
/// Deepest nesting of conditions.
const DEPTH: usize = 16;
/// Most conditions.
const NODES: usize = 256;

impl Filter {
    /// The filter that every record passes.
    pub fn all() -> Self {
        Self { root: Node::All(Vec::new()) }
    }

    /// Compiles a filter.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn compile(filter: &Value) -> Result<Self, FilterError> {
        let mut compiler = Compiler { nodes: 0 };
        Ok(Self { root: compiler.conditions(filter, "", DEPTH)? })
    }

    /// Whether the record passes.
    pub fn matches(&self, record: &Object) -> bool {
        self.root.matches(record)
    }

    /// The value that a column must equal in every record that passes, if the filter fixes one:
    /// where to look instead of reading the whole table.
    pub fn fixed(&self, column: &str) -> Option<&Value> {
        self.root.fixed(column)
    }
}

impl Node {
    fn matches(&self, record: &Object) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(record)),
            Self::Field(path, Test::Equal(value)) => equals(path.find(record), value),
        }
    }

    fn fixed(&self, column: &str) -> Option<&Value> {
        match self {
            Self::All(nodes) => nodes.iter().find_map(|node| node.fixed(column)),
            Self::Field(path, Test::Equal(value)) => {
                (path.as_column() == Some(column)).then_some(value)
            }
        }
    }
}

/// Missing is null; a value against an array also means one of its items.
fn equals(found: Option<&Value>, value: &Value) -> bool {
    let found = found.unwrap_or(&Value::Null);
    same(found, value)
        || found.as_array().is_some_and(|items| items.iter().any(|item| same(item, value)))
}

/// Counts the conditions while compiling.
struct Compiler {
    nodes: usize,
}

impl Compiler {
    fn count(&mut self) -> Result<(), FilterError> {
        self.nodes += 1;
        if self.nodes > NODES { Err(FilterError::TooLarge) } else { Ok(()) }
    }

    /// An object of conditions that all have to hold.
    fn conditions(&mut self, filter: &Value, at: &str, left: usize) -> Result<Node, FilterError> {
        let left = left.checked_sub(1).ok_or(FilterError::TooLarge)?;
        let Value::Object(members) = filter else {
            return Err(FilterError::Invalid { path: at.to_owned(), expected: "an object" });
        };
        let mut nodes = Vec::new();
        for (key, operand) in members.iter() {
            self.count()?;
            match key {
                "$and" => nodes.push(self.every(operand, left)?),
                key if key.starts_with('$') => {
                    return Err(FilterError::UnknownOperator {
                        operator: key.to_owned(),
                        path: at.to_owned(),
                        accepted: LOGIC,
                    });
                }
                key => self.field(key, operand, &mut nodes)?,
            }
        }
        Ok(Node::All(nodes))
    }

    fn every(&mut self, operand: &Value, left: usize) -> Result<Node, FilterError> {
        let filters = operand.as_array().filter(|filters| !filters.is_empty());
        let Some(filters) = filters else {
            return Err(FilterError::Invalid {
                path: String::from("$and"),
                expected: "an array of filters, at least one",
            });
        };
        let nodes = filters.iter().map(|filter| self.conditions(filter, "$and", left));
        nodes.collect::<Result<_, _>>().map(Node::All)
    }

    /// A value to equal, or an object of operators.
    fn field(
        &mut self,
        key: &str,
        operand: &Value,
        nodes: &mut Vec<Node>,
    ) -> Result<(), FilterError> {
        let path = Path::parse(key);
        let operators = operand
            .as_object()
            .filter(|members| members.keys().any(|member| member.starts_with('$')));
        let Some(operators) = operators else {
            nodes.push(Node::Field(path, Test::Equal(operand.clone())));
            return Ok(());
        };
        for (operator, operand) in operators.iter() {
            self.count()?;
            match operator {
                "$eq" => nodes.push(Node::Field(path.clone(), Test::Equal(operand.clone()))),
                operator if operator.starts_with('$') => {
                    return Err(FilterError::UnknownOperator {
                        operator: operator.to_owned(),
                        path: key.to_owned(),
                        accepted: TESTS,
                    });
                }
                _ => {
                    return Err(FilterError::Invalid {
                        path: key.to_owned(),
                        expected: "either a value or an object of operators, not both; \
                                   an object with such keys is written under `$eq`",
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn compile(text: &str) -> Result<Filter, FilterError> {
        Filter::compile(&parse(text.as_bytes()).unwrap())
    }

    fn matches(filter: &str, record: &str) -> bool {
        let record = parse(record.as_bytes()).unwrap();
        compile(filter).unwrap().matches(record.as_object().unwrap())
    }

    #[test]
    fn missing_is_null_and_nothing_else_is() {
        let rows = [
            r#"{"a":null}"#,
            "{}",
            r#"{"a":0}"#,
            r#"{"a":""}"#,
            r#"{"a":false}"#,
            r#"{"a":[null]}"#,
        ];
        for filter in [r#"{"a":null}"#, r#"{"a":{"$eq":null}}"#, r#"{"$and":[{"a":null}]}"#] {
            let found = rows.map(|row| matches(filter, row));
            assert_eq!(found, [true, true, false, false, false, true], "{filter}");
        }
    }

    #[test]
    fn numbers_are_exact() {
        let filter = r#"{"n":9196877626998785}"#;
        assert!(matches(filter, r#"{"n":9196877626998785}"#));
        assert!(!matches(filter, r#"{"n":9196877626998784}"#));
        assert!(matches(r#"{"n":1}"#, r#"{"n":1.0}"#));
        assert!(!matches(r#"{"n":1}"#, r#"{"n":"1"}"#));
        assert!(!matches(r#"{"n":1}"#, r#"{"n":true}"#));
    }

    #[test]
    fn arrays_hold_and_objects_equal() {
        assert!(matches(r#"{"t":"x"}"#, r#"{"t":["y","x"]}"#));
        assert!(matches(r#"{"t":["x"]}"#, r#"{"t":["x"]}"#));
        assert!(matches(r#"{"t":["x"]}"#, r#"{"t":[["x"]]}"#));
        assert!(!matches(r#"{"t":["x"]}"#, r#"{"t":["x","y"]}"#));
        assert!(matches(r#"{"o":{"b":2,"a":1}}"#, r#"{"o":{"a":1,"b":2}}"#));
        assert!(!matches(r#"{"o":{"a":1}}"#, r#"{"o":{"a":1,"b":2}}"#));
        assert!(matches(r#"{"o":{}}"#, r#"{"o":{}}"#));
        assert!(matches(r#"{"o":{"$eq":{"$x":1}}}"#, r#"{"o":{"$x":1}}"#));
    }

    #[test]
    fn paths_and_odd_keys() {
        let row = r#"{"":3,"$type":"entry","a":{"b":{"c":2}},"a.b":{"c":1},"l":[{"x":1}]}"#;
        for filter in [
            r#"{"a.b.c":2}"#,
            r#"{"/a.b/c":1}"#,
            r#"{"/$type":"entry"}"#,
            r#"{"":3}"#,
            r#"{"l.0.x":1}"#,
            r#"{"a.b.c":2,"":3}"#,
            "{}",
        ] {
            assert!(matches(filter, row), "{filter}");
        }
        for filter in [r#"{"a.b.c":1}"#, r#"{"l.x":1}"#, r#"{"a.b.c":2,"":4}"#] {
            assert!(!matches(filter, row), "{filter}");
        }
    }

    #[test]
    fn an_unknown_operator_says_what_is_known() {
        assert_eq!(
            compile(r#"{"$type":"entry"}"#).unwrap_err().to_string(),
            "unknown operator `$type` at the top: accepted are $and; a key that begins with `$` \
             is written `/$type`"
        );
        assert_eq!(
            compile(r#"{"a.n":{"$gt":1}}"#),
            Err(FilterError::UnknownOperator {
                operator: "$gt".into(),
                path: "a.n".into(),
                accepted: TESTS,
            })
        );
        for invalid in [
            "5",
            "[]",
            r#"{"$and":{}}"#,
            r#"{"$and":[]}"#,
            r#"{"$and":[1]}"#,
            r#"{"a":{"$eq":1,"b":2}}"#,
        ] {
            assert!(matches!(compile(invalid), Err(FilterError::Invalid { .. })), "{invalid}");
        }
    }

    #[test]
    fn filters_are_bounded() {
        let deep = format!("{}{{}}{}", r#"{"$and":["#.repeat(16), "]}".repeat(16));
        assert_eq!(compile(&deep), Err(FilterError::TooLarge));
        let wide: Vec<_> = (0..257).map(|n| format!(r#""k{n}":1"#)).collect();
        assert_eq!(compile(&format!("{{{}}}", wide.join(","))), Err(FilterError::TooLarge));
    }

    #[test]
    fn a_fixed_column_is_found() {
        let filter = compile(r#"{"b":2,"$and":[{"id":"x"}]}"#).unwrap();
        assert_eq!(filter.fixed("id"), Some(&Value::from("x")));
        assert_eq!(filter.fixed("c"), None);
    }
}
