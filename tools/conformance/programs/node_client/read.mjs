// Reads the answers of an Azure at an address with Microsoft's client for JavaScript, and prints a line for each
// operation: its name, and what went wrong, if anything.
import { AzureMachineLearningWorkspaces } from "@azure/arm-machinelearning";

const { address, token, subscription, group, workspace, cluster, size } = JSON.parse(process.argv[2]);
const credential = {
  getToken: async () => ({ token, expiresOnTimestamp: Date.now() + 3600000 }),
};
const client = new AzureMachineLearningWorkspaces(credential, subscription, {
  endpoint: address,
  retryOptions: { maxRetries: 0 },
});
const at = [group, workspace];

async function all(pages) {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
}

async function check(operation, ask, holds) {
  let problem = "";
  try {
    const answer = await ask();
    if (!holds(answer)) problem = `unexpected: ${JSON.stringify(answer)}`;
  } catch (error) {
    problem = `${error.statusCode ?? ""} ${error.code ?? error.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ operation, problem }));
}

const named = (name) => (one) => one.name === name;
const holds = (name) => (found) => found.some(named(name));
const none = (found) => found.length === 0;
const quick = { updateIntervalInMs: 50 };

await check("Workspaces.listBySubscription", () => all(client.workspaces.listBySubscription()), holds(workspace));
await check("Workspaces.listByResourceGroup", () => all(client.workspaces.listByResourceGroup(group)), holds(workspace));
await check("Workspaces.get", () => client.workspaces.get(...at), (one) => one.name === workspace && one.storageAccount !== undefined);
await check("ComputeOperations.list", () => all(client.computeOperations.list(...at)), holds(cluster));
await check("ComputeOperations.get", () => client.computeOperations.get(...at, cluster),
  (one) => one.properties.computeType === "AmlCompute" && one.properties.properties.vmSize === size && one.properties.provisioningState === "Succeeded");
await check("ComputeOperations.listNodes", () => all(client.computeOperations.listNodes(...at, cluster)), none);
await check("ComputeOperations.beginCreateOrUpdate",
  () => client.computeOperations.beginCreateOrUpdateAndWait(...at, "another", {
    location: "westeurope",
    properties: { computeType: "AmlCompute", properties: { vmSize: size, scaleSettings: { maxNodeCount: 1 } } },
  }, quick), named("another"));
await check("ComputeOperations.beginDelete", async () => {
  await client.computeOperations.beginDeleteAndWait(...at, "another", "Delete", quick);
  return client.computeOperations.get(...at, "another").catch((error) => error.statusCode);
}, (status) => status === 404);
await check("Datastores.list", () => all(client.datastores.list(...at)), (found) => found.some((one) => one.properties.datastoreType === "AzureBlob"));
await check("DataVersions.createOrUpdate",
  () => client.dataVersions.createOrUpdate(...at, "digits", "1", {
    properties: { dataType: "uri_folder", dataUri: "azureml://datastores/prepared/paths/digits/" },
  }), named("1"));
await check("DataVersions.get", () => client.dataVersions.get(...at, "digits", "1"), (one) => one.properties.dataType === "uri_folder");
await check("DataVersions.list", () => all(client.dataVersions.list(...at, "digits")), holds("1"));
await check("DataContainers.list", () => all(client.dataContainers.list(...at)), holds("digits"));
await check("EnvironmentVersions.createOrUpdate",
  () => client.environmentVersions.createOrUpdate(...at, "image", "1", { properties: { image: "registry/image:1" } }), named("1"));
await check("EnvironmentVersions.get", () => client.environmentVersions.get(...at, "image", "1"), (one) => one.properties.image === "registry/image:1");
const path = `/subscriptions/${subscription}/resourceGroups/${group}/providers/Microsoft.MachineLearningServices/workspaces/${workspace}`;
await check("Jobs.createOrUpdate",
  () => client.jobs.createOrUpdate(...at, "first", {
    properties: {
      jobType: "Command", command: "sleep 60", computeId: `${path}/computes/${cluster}`,
      environmentId: `${path}/environments/image/versions/1`,
    },
  }), named("first"));
await check("Jobs.get", () => client.jobs.get(...at, "first"), (one) => one.properties.jobType === "Command" && one.properties.status !== undefined);
await check("Jobs.list", () => all(client.jobs.list(...at)), holds("first"));
await check("Jobs.beginCancel", async () => {
  await client.jobs.beginCancelAndWait(...at, "first", quick);
  return client.jobs.get(...at, "first");
}, (one) => ["CancelRequested", "Canceled"].includes(one.properties.status));
await check("ModelContainers.list", () => all(client.modelContainers.list(...at)), none);
await check("OnlineEndpoints.list", () => all(client.onlineEndpoints.list(...at)), none);
await check("Usages.list", () => all(client.usages.list("westeurope")), (found) => found.length > 0 && found[0].limit !== undefined);
await check("Workspaces.beginDelete", async () => {
  await client.workspaces.beginDeleteAndWait(...at, quick);
  return all(client.workspaces.listByResourceGroup(group));
}, none);
