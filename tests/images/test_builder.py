"""What of this machine's pip a build is given."""

from images.build.builder import pip_settings


def test_settings_of_the_environment_count_over_those_of_files() -> None:
    listed = ["global.timeout='15'", "global.retries='9'", ":env:.timeout='60'"]
    assert pip_settings(listed) == {"timeout": "60", "retries": "9"}


def test_folders_of_this_machine_are_not() -> None:
    assert pip_settings([":env:.find-links='/here'", "global.cache-dir='/there'", "install.user='true'"]) == {}


def test_a_value_may_have_an_equals_sign() -> None:
    assert pip_settings(["global.proxy='http://user:a=b@proxy:1'"]) == {"proxy": "http://user:a=b@proxy:1"}
