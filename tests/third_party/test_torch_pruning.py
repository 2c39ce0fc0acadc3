"""The traced groups against Torch-Pruning's dependency graph: which entries of which parameters go with one channel.

Both partition the entries of the parameters' axes into classes, one for each channel or neuron. Torch-Pruning asks what
must be removed together, symlab what must be renumbered together; these differ as the tests say:

- Torch-Pruning lists the network's outputs (logits, rows of a tied vocabulary) too, which symlab keeps in place;
- it removes one dimension of query, key and value of a head at once, though values and queries are renumbered apart;
- in a Mixer it takes the channels for inputs of the linear maps over tokens, which read them as a batch (``misread``).
"""

import itertools
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import building
import families
import pytest
import torch
from torch import nn

from symlab.networks.mlp import MLP
from symlab.networks.resnet import ResNet20
from symlab.own.models import trace_quietly
from symlab.symmetries.symmetry_spec import Concat

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Compared:
    """A network, and parameters whose place Torch-Pruning mistakes."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], torch.Tensor] = building.images
    misread: str = "no parameter"


def timm_model(name):
    return Compared(building.timm_model(name, 0, num_classes=5).build)


def family(name, **options):
    return Compared(families.FAMILIES[name].build, families.FAMILIES[name].inputs, **options)


NETWORKS = {
    "symlab MLP": Compared(lambda: MLP(20, [16, 12], 5), lambda: torch.randn(2, 20)),
    "symlab ResNet20": Compared(lambda: ResNet20(3072, 10, 1, 1, 3), lambda: torch.randn(2, 3072)),
    "timm ResNet-18": timm_model("resnet18"),
    "timm VGG-11": timm_model("vgg11"),
    "timm MobileNetV2": timm_model("mobilenetv2_035"),
    "timm DenseNet": Compared(
        building.timm_class("densenet", "DenseNet", growth_rate=8, block_config=(2, 2), num_classes=5)
    ),
    "timm ConvNeXt": Compared(
        building.timm_class("convnext", "ConvNeXt", depths=(1, 1, 1, 1), dims=(8, 12, 16, 20), num_classes=5)
    ),
    "timm MLP-Mixer": family("timm MLP-Mixer", misread="mlp_tokens"),
}
WELL_READ = ("timm ViT", "ResNet", "ConvNeXt v2", "PoolFormer", "ViT", "BERT", "DistilBERT", "OPT")
NETWORKS |= {name: family(name) for name in WELL_READ}


def neurons(axis, length, groups):
    """For each entry of an axis the neurons that it belongs to."""
    if axis is None or isinstance(axis, int):
        return [frozenset()] * (length if axis is None else axis)
    if isinstance(axis, str):
        return [frozenset([(axis, index)]) for index in range(groups[axis].size)]
    parts = [neurons(part, None, groups) for part in axis.parts]
    if isinstance(axis, Concat):
        return list(itertools.chain(*parts))
    return [frozenset().union(*chosen) for chosen in itertools.product(*parts)]


def traced(module, x):
    """Entries (parameter, axis, index) by neuron."""
    spec = trace_quietly(module, x).spec
    classes = defaultdict(set)
    for name, parameter in module.named_parameters():
        for dim, axis in enumerate(spec.axes[name]):
            for index, of_entry in enumerate(neurons(axis, parameter.shape[dim], spec.groups)):
                if of_entry:
                    classes[of_entry].add((name, dim, index))
    return {frozenset(entries) for entries in classes.values()}


def pruned(module, x):
    """Entries (parameter, axis, index) that Torch-Pruning removes with each channel."""
    import torch_pruning

    names = {id(parameter): name for name, parameter in module.named_parameters()}
    graph = torch_pruning.DependencyGraph().build_dependency(module, example_inputs=x)
    classes = set()
    for group in graph.get_all_groups(root_module_types=[nn.Conv2d, nn.Linear]):
        dependency, channels = group[0]
        for channel in channels:
            removed = graph.get_pruning_group(dependency.target.module, dependency.handler, [channel])
            classes.add(frozenset(entry for each, indices in removed for entry in entries(each, indices, names)))
    return classes


def entries(dependency, indices, names):
    target = dependency.target.module
    if isinstance(target, nn.Parameter):
        return {(names[id(target)], dependency.target.pruning_dim % target.dim(), index) for index in indices}
    reads = dependency.handler.__name__.endswith("in_channels") and isinstance(target, nn.Linear | nn.Conv2d)
    found = set()
    for parameter in target.parameters(recurse=False):
        if reads and parameter.dim() < 2:
            continue
        depthwise = isinstance(target, nn.Conv2d) and target.groups > 1
        dim = 1 if isinstance(target, nn.Embedding) or (reads and not depthwise) else 0
        found |= {(names[id(parameter)], dim, index) for index in indices}
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_channels_that_go_together_are_neurons_that_go_together(name):
    pytest.importorskip("torch_pruning", reason="the extra 'models' is not installed (torch-pruning)")
    compared = NETWORKS[name]
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    module, x = compared.build().eval(), compared.inputs()
    ours = {frozenset(e for e in each if compared.misread not in e[0]) for each in traced(module, x)} - {frozenset()}
    theirs = {frozenset(e for e in each if compared.misread not in e[0]) for each in pruned(module, x)} - {frozenset()}
    in_place = theirs - ours
    known = set().union(*ours)
    kinds = Counter(equal=len(ours & theirs))
    for each in in_place:
        within = [one for one in ours if one <= each]
        if not each & known:
            kinds["outputs"] += 1
        else:
            # One dimension of a head: of queries and keys, and of values.
            assert len(within) == 2, sorted(each)
            assert frozenset().union(*within) == each, sorted(each)
            kinds["query, key and value"] += 1
    covered = [one for one in ours if any(one <= each for each in theirs)]
    print(name, dict(kinds))
    assert len(covered) == len(ours)
