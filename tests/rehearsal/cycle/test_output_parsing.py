"""What the output of commands says."""

from rehearsal.cycle import output_parsing

UPDATED = """
Previewing update (dev):
Resources:
    + 118 to create
    2 unchanged

Updating (dev):
    + 118 created
Resources:
    + 117 created
    ~ 1 updated
    +-1 replaced
    3 unchanged

Duration: 15s
"""
DIFFERENCE = """
  pulumi:pulumi:Stack: (same)
    ~ azure-native:machinelearningservices:Compute: (update)
      ~ properties: {
          ~ properties: {
              ~ scaleSettings: {
                  ~ maxNodeCount: 2 => 1
                }
            }
        }
      ~ publicNetworkAccess: "Disabled" => "Enabled"
Resources:
    ~ 1 to update
    117 unchanged
"""


def test_what_pulumi_counts_at_its_end():
    assert output_parsing.changes(UPDATED) == {
        "created": 117,
        "updated": 1,
        "replaced": 1,
        "unchanged": 3,
    }
    assert output_parsing.changes(DIFFERENCE) == {"to update": 1, "unchanged": 117}
    assert output_parsing.changes("error: no stack") == {}


def test_what_pulumi_shows_to_differ():
    assert output_parsing.differences(DIFFERENCE) == [
        "maxNodeCount: 2 => 1",
        'publicNetworkAccess: "Disabled" => "Enabled"',
    ]


def test_where_a_training_went_on_and_what_it_came_to():
    text = "rehearsal: starts\n...\nrehearsal: continues at step 1,040 of 2,000\n"
    assert output_parsing.continued_at(text) == 1040
    assert output_parsing.continued_at("starts") is None
    told = "step     50  epoch   2.23  loss 2.0\nstep  1,350  epoch  60.01  held-out top-1 77.50%\n"
    assert output_parsing.last_step(told) == 1350
    assert output_parsing.last_step("starts") is None
    said = "x/step-90: top-1 96.39%, top-5 100.00%, loss 0.6 on 1,360 held-out images"
    assert output_parsing.accuracy(said) == ("96.39", 1360)
    assert output_parsing.accuracy("no checkpoint") is None
