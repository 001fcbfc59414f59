// Command vcsim serves govmomi's simulator of vCenter on a free loopback port, with what tests of machines need:
// templates, folders, tags, a group of machines, and a switch that holds clones until a test lets them go.
//
// A clone of the simulator ignores most of the configuration that it is given. Here it is applied, as vCenter applies it.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	_ "github.com/vmware/govmomi/vapi/simulator"
)

// gate holds clones while it is closed.
type gate struct {
	mutex sync.Mutex
	open  chan struct{}
	// Clones that are under way, held or not.
	running atomic.Int32
}

func (g *gate) pass() {
	g.mutex.Lock()
	open := g.open
	g.mutex.Unlock()
	if open != nil {
		<-open
	}
}

func (g *gate) set(hold bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if hold && g.open == nil {
		g.open = make(chan struct{})
	} else if !hold && g.open != nil {
		close(g.open)
		g.open = nil
	}
}

var clones gate

// template is a machine whose clones get the whole configuration.
type template struct {
	*simulator.VirtualMachine
}

func (t *template) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	// A task locks its object while it runs. The template can be looked at while a clone is held, so it is not that one.
	place := types.ManagedObjectReference{Type: "VirtualMachine", Value: "clone-" + req.Name}
	// The request will have been answered; what follows must not share its locks.
	copied := *ctx
	own := &copied
	own.Context = context.Background()
	task := simulator.CreateTask(place, "cloneVm", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		defer clones.running.Add(-1)
		clones.pass()
		if req.Spec.Config != nil && req.Spec.Snapshot == nil && req.Spec.Location.DiskMoveType == "createNewChildDiskBacking" {
			return nil, &types.InvalidArgument{InvalidProperty: "snapshot"}
		}
		bare := *req
		bare.Spec.Config = nil
		body := t.VirtualMachine.CloneVMTask(own, &bare).(*methods.CloneVM_TaskBody)
		if body.Fault_ != nil {
			return nil, body.Fault_.VimFault().(types.BaseMethodFault)
		}
		inner := ctx.Map.Get(body.Res.Returnval).(*simulator.Task)
		inner.Wait()
		if inner.Info.Error != nil {
			return nil, inner.Info.Error.Fault
		}
		clone := inner.Info.Result.(types.ManagedObjectReference)
		if config := req.Spec.Config; config != nil {
			vm := ctx.Map.Get(clone).(*simulator.VirtualMachine)
			ownDisks(vm, config.DeviceChange)
			change := vm.ReconfigVMTask(own, &types.ReconfigVM_Task{This: clone, Spec: *config}).(*methods.ReconfigVM_TaskBody)
			changed := ctx.Map.Get(change.Res.Returnval).(*simulator.Task)
			changed.Wait()
			if changed.Info.Error != nil {
				return nil, changed.Info.Error.Fault
			}
		}
		return clone, nil
	})
	clones.running.Add(1)
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: task.Run(own)}}
}

// ownDisks leads changes of the template's disks to the clone's, as vCenter does.
func ownDisks(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) {
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		disk, isDisk := spec.Device.(*types.VirtualDisk)
		if !isDisk || spec.Operation != types.VirtualDeviceConfigSpecOperationEdit {
			continue
		}
		if own := devices.FindByKey(disk.Key); own != nil {
			disk.Backing = own.GetVirtualDevice().Backing
		}
	}
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	// Objects can be looked at while a task of theirs runs.
	simulator.TaskDelay.MethodDelay = map[string]int{"LockHandoff": 0}
	model := simulator.VPX()
	model.Cluster, model.Datastore, model.Pool, model.Machine = 2, 2, 1, 1
	defer model.Remove()
	if err := model.Create(); err != nil {
		return err
	}
	model.Service.TLS = new(tls.Config)
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword("administrator", "a-password-that-nobody-may-print")}
	model.Service.HandleFunc("/tests/hold", func(w http.ResponseWriter, _ *http.Request) { clones.set(true) })
	model.Service.HandleFunc("/tests/release", func(w http.ResponseWriter, _ *http.Request) { clones.set(false) })
	model.Service.HandleFunc("/tests/clones", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, clones.running.Load())
	})
	server := model.Service.NewServer()
	defer server.Close()
	if err := furnish(model, server.URL); err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", server.URL.Host)
	select {}
}

// furnish makes what a person prepares in vCenter.
func furnish(model *simulator.Model, address *url.URL) error {
	ctx := context.Background()
	client, err := govmomi.NewClient(ctx, address, true)
	if err != nil {
		return err
	}
	finder := find.NewFinder(client.Client)
	datacenter, err := finder.Datacenter(ctx, "DC0")
	if err != nil {
		return err
	}
	finder.SetDatacenter(datacenter)
	folders, err := datacenter.Folders(ctx)
	if err != nil {
		return err
	}
	if _, err := folders.VmFolder.CreateFolder(ctx, "machines"); err != nil {
		return err
	}
	if err := group(ctx, finder); err != nil {
		return err
	}
	return image(ctx, model, finder)
}

func group(ctx context.Context, finder *find.Finder) error {
	cluster, err := finder.ClusterComputeResource(ctx, "DC0_C0")
	if err != nil {
		return err
	}
	info := &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: "group"}}
	task, err := cluster.Reconfigure(ctx, &types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{
		ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd}, Info: info,
	}}}, true)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// image makes a template with a snapshot.
func image(ctx context.Context, model *simulator.Model, finder *find.Finder) error {
	vm, err := finder.VirtualMachine(ctx, "DC0_C0_RP1_VM0")
	if err != nil {
		return err
	}
	steps := []func() (*object.Task, error){
		func() (*object.Task, error) { return vm.PowerOff(ctx) },
		func() (*object.Task, error) { return vm.Rename(ctx, "template") },
		func() (*object.Task, error) { return vm.UpgradeVM(ctx, "vmx-19") },
		func() (*object.Task, error) { return vm.CreateSnapshot(ctx, "ready", "", false, false) },
	}
	for _, step := range steps {
		task, err := step()
		if err != nil {
			return err
		}
		if err := task.Wait(ctx); err != nil {
			return err
		}
	}
	if err := vm.MarkAsTemplate(ctx); err != nil {
		return err
	}
	object := model.Map().Get(vm.Reference()).(*simulator.VirtualMachine)
	model.Map().Put(&template{object})
	return nil
}
