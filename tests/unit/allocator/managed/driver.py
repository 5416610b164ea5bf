"""A driver to which hints are given, in the place of `cuda.bindings.driver`."""

import enum
import types


class Result(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1


class LocationType(enum.IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1
    CU_MEM_LOCATION_TYPE_HOST = 2


class Advice(enum.IntEnum):
    CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3
    CU_MEM_ADVISE_SET_ACCESSED_BY = 5


class Location:
    type = id = None


def make(version=13):
    """The module, and the list of what it is told."""
    told = []
    module = types.ModuleType("cuda.bindings.driver")
    module.result = Result.CUDA_SUCCESS

    def where(location):
        kind = location.type is LocationType.CU_MEM_LOCATION_TYPE_DEVICE
        return f"device {location.id}" if kind else "host"

    def advise(address, size, advice, location):
        what = "prefer" if advice is Advice.CU_MEM_ADVISE_SET_PREFERRED_LOCATION else "read by"
        told.append((what, address, size, where(location)))
        return (module.result,)

    def prefetch(address, size, location, flags, stream):
        assert flags == stream == 0
        told.append(("prefetch", address, size, where(location)))
        return (module.result,)

    def old(*arguments):
        raise AssertionError("the form without a location")

    module.CUmemLocation, module.CUmemLocationType = Location, LocationType
    module.CUmem_advise = Advice
    if version == 13:
        module.cuMemAdvise, module.cuMemPrefetchAsync = advise, prefetch
    else:
        module.cuMemAdvise = module.cuMemPrefetchAsync = old
        module.cuMemAdvise_v2, module.cuMemPrefetchAsync_v2 = advise, prefetch
    return module, told
