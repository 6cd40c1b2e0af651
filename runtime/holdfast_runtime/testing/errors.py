"""Why: what a test can do wrong, told to who wrote it. Must not hold logic."""

from holdfast.errors import UserActionError


class TestMisuseError(UserActionError):
    """The test asks for something the driver can't do."""

    __test__ = False


class SparkNeededError(UserActionError):
    """The app has Spark SQL steps, and the test gave no session."""


class FeedError(UserActionError):
    """Rows that are not rows of the stream they were fed into."""
