//! The files in which AWS's programs keep profiles.

/// The settings of a profile: the last value of each name counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile(Vec<(String, String)>);

/// Which of the two files it is: they write the name of a profile in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// `[name]`.
    Credentials,
    /// `[profile name]`, or `[default]`.
    Config,
}

impl Profile {
    /// Reads a profile. `None`: the file does not have it.
    pub(super) fn read(file: &str, kind: FileKind, name: &str) -> Option<Self> {
        let mut profile: Option<Self> = None;
        let mut is_inside = false;
        for line in file.lines() {
            let text = line.trim();
            if let Some(section) = text.strip_prefix('[') {
                let section = section.split_once(']').map_or(section, |(section, _)| section).trim();
                is_inside = kind.names(section, name);
                if is_inside {
                    profile.get_or_insert_default();
                }
                continue;
            }
            // An indented line belongs to the setting above.
            let is_setting = is_inside && !line.starts_with([' ', '\t']) && !text.starts_with(['#', ';']);
            let setting = text.split_once('=').filter(|_| is_setting);
            if let (Some(profile), Some((name, value))) = (&mut profile, setting) {
                profile.0.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        profile
    }

    /// Returns a setting that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

impl FileKind {
    fn names(self, section: &str, profile: &str) -> bool {
        match self {
            Self::Credentials => section == profile,
            Self::Config if section == "default" => profile == "default",
            Self::Config => section.strip_prefix("profile").is_some_and(|name| {
                name.starts_with(char::is_whitespace) && name.trim().trim_matches('"') == profile
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# a comment = none
[default]
aws_access_key_id = first
[ team ]  # of people
Aws_Access_Key_Id=second=with
  nested = no
; comment
s3 =
  max = 1
[profile team]
region = eu-west-1
[profile  \"two words\" ]
region=x
[default]
aws_access_key_id = third
";

    fn value<'a>(profile: &'a Option<Profile>, name: &str) -> Option<&'a str> {
        profile.as_ref().and_then(|profile| profile.get(name))
    }

    #[test]
    fn profiles_are_read() {
        let credentials = |name| Profile::read(FILE, FileKind::Credentials, name);
        let config = |name| Profile::read(FILE, FileKind::Config, name);
        assert_eq!(value(&credentials("default"), "aws_access_key_id"), Some("third"));
        let team = credentials("team");
        assert_eq!(value(&team, "aws_access_key_id"), Some("second=with"));
        for name in ["nested", "s3", "max", "region"] {
            assert_eq!(value(&team, name), None, "{name}");
        }
        assert_eq!(value(&config("team"), "region"), Some("eu-west-1"));
        assert_eq!(value(&config("two words"), "region"), Some("x"));
        assert_eq!(value(&config("default"), "aws_access_key_id"), Some("third"));
        assert_eq!((credentials("missing"), config("profile team")), (None, None));
        assert_eq!(value(&Profile::read("[a\nb=1\n=\n[", FileKind::Credentials, "a"), "b"), Some("1"));
    }
}
