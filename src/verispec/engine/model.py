"""The public model: load a file, generate, stream, hold a conversation."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from verispec.backends.contract import BackendAdapter, chain
from verispec.backends.draft_block import DraftBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.chained_strategies import JOIN
from verispec.drafting.options import DRAFT_MAX, DRAFT_MIN, DRAFT_MODEL, DRAFT_POLICY, RECURRENT_SNAPSHOTS
from verispec.drafting.resolution import Resolution, availability
from verispec.engine.adaptive_width import AdaptiveWidth
from verispec.engine.completion import Chunk, Completion
from verispec.engine.conversation import Conversation
from verispec.engine.decoder import Decoder
from verispec.engine.draft_availability import refusals
from verispec.engine.draft_costs import DraftCosts
from verispec.engine.draft_files import DraftFiles, RequestSources, no_choice
from verispec.engine.draft_width import FixedWidth, WidthPolicy
from verispec.engine.generation import Generation
from verispec.engine.guarded_drafter import GuardedDrafter
from verispec.engine.model_lock import ModelLock
from verispec.engine.pass_cost import CostTable
from verispec.engine.pass_timing import ASSUMED_COSTS, measure_pass_costs
from verispec.engine.prompt import Prompt, encode_prompt
from verispec.engine.prompt_scores import PromptScores
from verispec.engine.proof import make_receipt
from verispec.engine.request import Request
from verispec.engine.request_options import PreparedRequest, RequestOptions
from verispec.engine.sampler import Sampler
from verispec.engine.shared_cost import SharedCost
from verispec.engine.target import Target
from verispec.errors import BackendError
from verispec.evidence.receipt import Receipt
from verispec.text.chat_template import ChatTemplate
from verispec.text.detokenizer import Detokenizer
from verispec.text.stops import StopMatcher
from verispec.text.tokenizer import Tokenizer


class Model:
    """A loaded target with its tokeniser. Methods may be called from any thread; passes run one at a time.

    Open more generations than the backend holds sequences and the next one raises BackendError; a finished, closed or
    collected generation gives its sequence back.
    """

    def __init__(
        self,
        backend: BackendAdapter,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        artifacts: Mapping[str, str],
    ) -> None:
        self.backend = backend
        self.tokenizer = tokenizer
        self.template = template
        self.artifacts = artifacts
        """SHA-256 of each file by its role; ``target`` is the model itself."""
        self.lock = ModelLock()
        """Held by whoever uses the backend."""
        self._costs: CostTable | None = None
        self._draft_costs = DraftCosts(backend, self.lock)
        self._draft_files = DraftFiles(backend, tokenizer)

    def generate(self, prompt: Prompt, **options: Any) -> Completion:
        """The whole answer to ``prompt``: a string to complete, chat messages, or token ids.

        Options are the fields of ``SamplingParameters`` and ``GenerationLimits``, ``grammar`` (a ``Grammar`` that the
        answer must match), ``prompt_logprobs``, ``spec_mode`` and the ``spec_*`` options its strategy reads,
        ``strict_drafter`` and ``drafter_deadline``. An unknown or inert one raises OptionError. ``drafter`` takes a
        ``Drafter`` of your own, for this request alone. None of the speculation options can change the answer.
        """
        with self.stream(prompt, **options) as generation:
            return generation.result()

    def stream(self, prompt: Prompt, **options: Any) -> Generation:
        """The same, as an iterator over chunks; ``result()`` gives the whole, ``cancel()`` ends it early."""
        return self.start(prompt, None, options)

    async def astream(self, prompt: Prompt, **options: Any) -> AsyncIterator[Chunk]:
        """The same for asyncio: passes run in a worker thread. Leaving the loop or cancelling the task ends it."""
        generation = self.stream(prompt, **options)
        try:
            while (chunk := await asyncio.to_thread(next, generation, None)) is not None:
                yield chunk
        finally:
            generation.cancel()
            generation.close()

    def conversation(self) -> Conversation:
        """A conversation that keeps the target's state of everything said so far."""
        return Conversation(self.backend, self.lock, self.start, self._drafter_resumes)

    def start(self, prompt: Prompt, conversation: Conversation | None, options: dict[str, Any]) -> Generation:
        """Opens a request, on the conversation's sequence when there is one."""
        prepared = self.prepare(prompt, options)
        with self.lock:
            sequence = conversation.reuse(prepared) if conversation else self.backend.open_sequence()
            try:
                request = self.open(prepared, sequence)
            except BaseException:  # a file that the drafter reads may be missing
                if conversation is None:
                    self.backend.close_sequence(sequence)
                raise
            if conversation is not None:
                conversation.begin(request)
        held = [sequence]

        def release() -> None:
            with self.lock, suppress(BackendError):
                if conversation is not None:
                    conversation.keep(request)
                elif held:  # once: the sequence may be another's by the second time
                    self.backend.close_sequence(held.pop())

        return Generation(request, self.lock, release, prepared.options, conversation is not None)

    def prepare(self, prompt: Prompt, options: Mapping[str, Any]) -> PreparedRequest:
        """Everything about a request that can be checked before it is given a sequence; raises what is wrong."""
        parsed = RequestOptions.parse(options, self.backend.capabilities)
        parsed.sampling.check_vocabulary(self.backend.capabilities.vocabulary)
        seed = parsed.sampling.seed if parsed.sampling.seed is not None else secrets.randbits(64)
        tokens = self.encode(prompt)
        matcher = None
        if parsed.grammar is not None:
            matcher = parsed.grammar.matcher(self.tokenizer, self.backend.capabilities.vocabulary)
        return PreparedRequest(tokens, parsed, seed, matcher)

    def open(self, prepared: PreparedRequest, sequence: int) -> Request:
        """The request on ``sequence``, which holds nothing or a prefix of its prompt."""
        tokens, options = prepared.prompt, prepared.options
        sampler = Sampler(options.sampling, prepared.seed, tokens, prepared.matcher)
        window = options.resolution.settings.get(RECURRENT_SNAPSHOTS.name)
        self.backend.keep_states(sequence, window or 0)
        request = Request(
            tokens,
            Target(self.backend, sequence),
            self._drafter(options, RequestSources(self._draft_files, sequence, sampler.guess)),
            sampler,
            self._decoder(options, self.backend.capabilities.context - len(tokens)),
            None if options.prompt_logprobs is None else PromptScores(options.prompt_logprobs),
            window,
        )
        if request.sampler.finished:  # a grammar of no text at all
            request.decoder.complete()
        return request

    def encode(self, prompt: Prompt) -> list[int]:
        """The token ids that ``prompt`` stands for; ContextOverflowError when no token could follow them."""
        return encode_prompt(prompt, self.tokenizer, self.template, self.backend.capabilities.context)

    def receipt(self, completion: Completion, include_text: bool = False) -> Receipt:
        """The receipt of one of this model's answers; ``include_text`` stores prompt and answer in it."""
        return make_receipt(
            completion,
            runtime=self.backend.identity(),
            artifacts=self.artifacts,
            tokenizer=self.tokenizer.digest,
            include_text=include_text,
        )

    def _drafter(self, options: RequestOptions, sources: RequestSources) -> GuardedDrafter:
        resolution = options.resolution
        vocabulary = self.backend.capabilities.vocabulary
        drafter = resolution.make_drafter(sources)
        policy = self._policy(resolution, sources) if drafter is not None else FixedWidth(0)
        guarded = GuardedDrafter(
            drafter, policy, vocabulary, options.strict_drafter, options.drafter_deadline
        )
        artifact = resolution.settings.get(DRAFT_MODEL.name)
        if artifact is not None:
            guarded.expected_acceptance = self._draft_files.artifacts.acceptance(str(artifact))
        return guarded

    def _policy(self, resolution: Resolution, sources: RequestSources) -> WidthPolicy:
        settings = resolution.settings
        widths = int(settings[DRAFT_MAX.name]), int(settings[DRAFT_MIN.name])
        if settings[DRAFT_POLICY.name] == FixedWidth.name:
            return FixedWidth(*widths)
        seconds = self._draft_costs.seconds(resolution, sources)
        return AdaptiveWidth(SharedCost(self.pass_costs()), *widths, *seconds)

    def _drafter_resumes(self, prepared: PreparedRequest, sequence: int, length: int) -> bool:
        """Whether a drafter that keeps entries beside the target's has those of the first ``length`` positions."""
        resolution = prepared.options.resolution
        if not resolution.strategy.keeps_entries or resolution.strategy.part is None:
            return True
        sources = RequestSources(self._draft_files, sequence, no_choice)
        part = resolution.strategy.part(resolution.settings, sources)
        if isinstance(part, PredictionBlock):
            return part.resume(sequence, length) is not None
        return not isinstance(part, DraftBlock) or part.resume(sequence, length)

    def open_artifact(self, resolution: Resolution) -> None:
        """Opens the draft artifact that ``resolution`` names, if it does; raises what is wrong with it."""
        name = resolution.settings.get(DRAFT_MODEL.name)
        if name is not None:
            with self.lock:
                self._draft_files.artifacts.open(str(name), resolution.strategy.name.split(JOIN))

    def assume_costs(self, passes: CostTable, draft_seconds: float = 0.0, block_seconds: float = 0.0) -> None:
        """Has adaptive draft widths go by these from now on instead of measuring: for costs known from elsewhere, or to
        run the rounds of a receipt again. A width changes no text."""
        with self.lock:
            self._costs = passes
            self._draft_costs.assumed = draft_seconds, block_seconds

    def pass_costs(self) -> CostTable:
        """What a pass costs here, by rows and context; measured once, when it is first needed.

        While every sequence is held there is none to measure on, and a request goes by the assumed costs.
        """
        with self.lock:
            if self._costs is None:
                try:
                    sequence = self.backend.open_sequence()
                except BackendError:
                    return ASSUMED_COSTS
                try:
                    self._costs = measure_pass_costs(self.backend, sequence)
                finally:
                    self.backend.close_sequence(sequence)
            return self._costs

    def _decoder(self, options: RequestOptions, room: int) -> Decoder:
        limits = options.limits
        wanted = limits.max_tokens if limits.max_tokens is not None else room + 1  # the context ends it
        end_tokens = () if limits.ignore_eos else self.tokenizer.eos_ids
        return Decoder(
            Detokenizer(self.tokenizer, shown=limits.shown_tokens),
            StopMatcher(limits.stop),
            end_tokens,
            min(wanted, room),
            wanted > room,
        )

    def logits(self, prompt: Prompt) -> npt.NDArray[np.float32]:
        """The target's logits for the token after ``prompt``: ``[vocabulary]`` float32."""
        tokens = encode_prompt(prompt, self.tokenizer, self.template, self.backend.capabilities.context + 1)
        with self.lock:
            sequence = self.backend.open_sequence()
            try:
                rows = chain(sequence, 0, tokens)
                evaluation = self.backend.evaluate(rows, [len(rows) - 1], True)
                assert evaluation.logits is not None
                row: npt.NDArray[np.float32] = evaluation.logits[0].copy()
                return row
            finally:
                self.backend.close_sequence(sequence)

    def capabilities(self, draft_model: str | None = None) -> dict[str, Any]:
        """What this model can run: the backend's facts and every strategy with its status and reason.

        With ``draft_model``, what an option of that name would name: the artifact is opened and checked, and what is
        wrong with it is the reason of those that draft with one. Raises FetchError or ArtifactError when there is none.
        """
        capabilities = self.backend.capabilities
        given, refused = {}, {}
        if draft_model is not None:
            given = {DRAFT_MODEL.name: draft_model}
            with self.lock:
                refused = refusals(self._draft_files.artifacts, draft_model, capabilities)
        return {
            "backend": self.backend.name,
            "exactness": capabilities.exactness,
            "architecture": capabilities.architecture,
            "context": capabilities.context,
            "strategies": availability(capabilities, given, refused),
        }

    def close(self) -> None:
        """Frees the model. Generations still open cannot go on."""
        with self.lock:
            self.backend.close()
            self._draft_files.artifacts.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
