"""One tree of errors, named by the boundary that was crossed.

Every message is one clear sentence: what is wrong, where, what to do. The command line prints it
and exits with status 2; nothing else in the package calls ``sys.exit``.
"""


class StaractError(Exception):
    """The root: anything that a person can mend by changing an input."""


class RecipeError(StaractError):
    """A recipe, an override or a command-line argument is wrong."""


class ModelError(StaractError):
    """A model cannot be loaded, reached, or asked."""


class QuotaError(ModelError):
    """The endpoint will not answer again until somebody pays or waits: stop, keep what is done."""


class ContextLimitError(ModelError):
    """The prompt leaves no room for one more token: the episode ends as ``context_limit``."""


class EnvironmentFault(StaractError):
    """An environment is missing, misconfigured, or failed through no fault of the agent."""


class FormatError(StaractError):
    """A text cannot be read as what it should be (a completion, a template, a dataset row)."""


class StoreError(StaractError):
    """A run folder, a trajectory file or a panel is damaged, locked or of another recipe."""


class TrainingError(StaractError):
    """Training data, a training set-up or a checkpoint is unusable."""


class WorkerError(StaractError):
    """Workers of a cluster cannot be started, or are lost again and again."""
