from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile
from pgmo.profiler.profile import Profile
from pgmo.report.findings.reserved import predict_reserved

MIB = 2**20


def test_both_settings_are_the_models_own_figures():
    # A block of 30 MiB fits in neither segment of 20 MiB.
    profile = Profile.from_columns(
        size=[20 * MIB, 20 * MIB, 30 * MIB], start=[0, 1, 2], end=[2, 2, 3], ticks=3
    )
    predicted = predict_reserved(profile)
    assert set(predicted) == {"default", "expandable"}
    model = simulate_profile(profile, AllocatorSettings(expandable_segments=True))
    assert predicted["expandable"].peak == model.peak_reserved
    assert predicted["default"].peak == 70 * MIB
    assert predicted["expandable"].peak < predicted["default"].peak
    assert predicted["default"].curve.shape == (3,)
