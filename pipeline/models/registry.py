"""From a recipe's words to a model that answers."""

from __future__ import annotations

from pipeline.errors import ModelError
from pipeline.models.addresses import resolve
from pipeline.models.base import Model
from pipeline.models.folders import is_encoder_decoder
from pipeline.recipe.models import ModelRecipe


def load_model(recipe: ModelRecipe) -> Model:
    """Load, or connect to, the model that a recipe names. Libraries are imported only when needed.

    Raises:
        ModelError: the address is wrong, or the model cannot be loaded.
    """
    kind = resolve(recipe.address).kind
    if kind == "openai":
        from pipeline.models.openai import OpenAIModel

        return OpenAIModel(recipe)
    if kind == "expert":
        from pipeline.models.expert import ExpertModel

        return ExpertModel()
    if kind == "new":
        raise ModelError(f"{recipe.address!r} is only to be trained: evaluate its student, or 'untrained'")
    if kind == "scripted":
        raise ModelError(
            "a 'scripted' model is made in code, from the texts it should write; a recipe cannot name it"
        )
    if is_encoder_decoder(recipe.address):
        from pipeline.models.transformers_seq2seq import TransformersSeq2Seq

        return TransformersSeq2Seq(recipe)
    from pipeline.models.transformers_causal import TransformersCausal

    return TransformersCausal(recipe)
